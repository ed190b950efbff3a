#!/bin/bash
# sentinel.sh DIR [PORT]: a Redis master with two replicas, and three Sentinels that know it as `shop`, on loopback,
# until Ctrl-C: to try failovers on. The servers are on PORT (6479) and the next two, the Sentinels on the three
# after. Data and logs are in DIR, and are found there the next time. What you killed comes back with
# `redis-server DIR/r0/redis.conf`. Redis 7.
# shellcheck disable=SC2317 # all_agree is only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

dir=$(realpath -m "${1:?usage: sentinel.sh DIR [PORT]}")
port=${2:-6479}
deploy=$(realpath "$(dirname "$0")")
# shellcheck source=deploy/servers.sh
. "$deploy/servers.sh"

all_agree() {
    local i
    for i in 3 4 5; do
        redis_says $((port + i)) status=ok,.*,slaves=2,sentinels=3 INFO sentinel || return 1
    done
}

# What a Sentinel needs to know when it starts for the first time; it writes down there what it learns. A master that
# is silent for two seconds is replaced.
sentinel_start() {
    local home=$1 port=$2 master=$3
    mkdir -p "$home" || exit 1
    [ -e "$home/sentinel.conf" ] ||
        printf '%s\n' "port $port" 'bind 127.0.0.1' "dir \"$home\"" "sentinel monitor shop 127.0.0.1 $master 2" \
            'sentinel down-after-milliseconds shop 2000' 'sentinel failover-timeout shop 10000' \
            >"$home/sentinel.conf"
    start "$home/log" redis-server "$home/sentinel.conf" --sentinel
}

want_free "$port" 6
redis_start "$dir/r0" "$port"
for i in 1 2; do redis_start "$dir/r$i" $((port + i)) "replicaof 127.0.0.1 $port"; done
for i in 3 4 5; do sentinel_start "$dir/s$i" $((port + i)) "$port"; done
wait_for 'A Sentinel' all_agree

for i in 0 1 2; do echo "server 127.0.0.1:$((port + i)), pid ${pids[i]}: $(redis-cli -p $((port + i)) ROLE | head -n 1)"; done
for i in 3 4 5; do echo "Sentinel 127.0.0.1:$((port + i)), pid ${pids[i]}"; done
echo "seckilld --redis redis-sentinel://127.0.0.1:$((port + 3)),127.0.0.1:$((port + 4)),127.0.0.1:$((port + 5))/shop --replicas 1"
echo "Ctrl-C ends them."
wait
fail "All servers have ended."
