#!/bin/bash
# run.sh [FLAG…]: a private Redis, a private etcd, and seckilld with these flags and a demo item on sale, until
# Ctrl-C. Data, logs and admin token are in var/. SECKILL_LISTEN (127.0.0.1:8080), SECKILL_REDIS_PORT (6390),
# SECKILL_ETCD_PORT (2390; its peer port is the next), SECKILL_ADMIN_TOKEN or SECKILL_ADMIN_TOKEN_FILE (made up),
# SECKILL_LOCK (etcd:). Of that and --lock, `etcd:` and `redis:` without an address are the private ones.
# shellcheck disable=SC2317 # some functions are only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
umask 077

build=${SECKILL_BUILD:-build}
listen=${SECKILL_LISTEN:-127.0.0.1:8080}
unset SECKILL_OPERATOR_LISTEN # here one address serves everything
redis_port=${SECKILL_REDIS_PORT:-6390}
etcd_port=${SECKILL_ETCD_PORT:-2390}
etcd_peer_port=$((etcd_port + 1))
lock=${SECKILL_LOCK:-etcd:}
flags=()
port=${listen##*:}
host=${listen%:*}
case $host in '' | 0.0.0.0 | '[::]' | '*') host=127.0.0.1 ;; esac
url=http://$host:$port
redis_pid='' etcd_pid='' seckilld_pid='' unclean=''
# They are for this script: seckilld warns of variables that it does not know.
export -n SECKILL_BUILD SECKILL_REDIS_PORT SECKILL_ETCD_PORT

say() { printf '%s\n' "$@"; }

fail() {
    say "$1" >&2
    [ $# -lt 2 ] || tail -n 20 "$2" >&2
    exit 1
}

# end PROGRAM PID: asks it to end, waits for it, and says so if it went wrong. etcd, when it has ended well, sends
# itself the same signal once more.
end() {
    local status=0
    kill -TERM "$2" 2>/dev/null || return
    while kill -0 "$2" 2>/dev/null; do
        wait "$2" 2>/dev/null
        status=$?
    done
    [ "$status" -eq 0 ] && return
    [ "$1 $status" = "etcd 143" ] && return
    unclean=1
    say "$1 ended with status $status. The end of var/$1.log:" "$(tail -n 20 "var/$1.log")" >&2
}

# In this order: what seckilld still has in hand needs Redis and its lock. A second Ctrl-C does not wait for it.
end_all() {
    trap - EXIT
    trap '[ -z "$seckilld_pid" ] || kill -KILL "$seckilld_pid" 2>/dev/null' INT TERM HUP
    [ -z "$seckilld_pid" ] || end seckilld "$seckilld_pid"
    seckilld_pid=''
    [ -z "$etcd_pid" ] || end etcd "$etcd_pid"
    [ -z "$redis_pid" ] || end redis "$redis_pid"
    [ -z "$unclean" ] || exit 1
}

# start LOG PROGRAM...: in a session of its own, out of reach of the terminal's Ctrl-C; it is told to end
# should this script be killed. Its pid is in $!.
start() {
    local log=$1
    shift
    setsid setpriv --pdeathsig TERM "$@" </dev/null >"$log" 2>&1 9>&- &
}

is_taken() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# Repeats a command for a minute, as long as process $1 lives.
wait_until() {
    local pid=$1 tries
    shift
    for ((tries = 0; tries < 600; tries++)); do
        "$@" && return 0
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
    return 1
}

redis_answers() { [ "$(redis-cli -p "$redis_port" ping 2>/dev/null)" = PONG ]; }
etcd_answers() { [[ $(curl -s -m 5 "http://127.0.0.1:$etcd_port/health") == '{"health":"true"'* ]]; } # since 3.5 more follows
seckilld_answers() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/readyz")" = 200 ]; }
admin() { curl -s -H @<(printf 'Authorization: Bearer %s' "$SECKILL_ADMIN_TOKEN") "$@"; }

# refuse_taken HOST PORT WHOSE INSTEAD
refuse_taken() {
    is_taken "$1" "$2" && fail "Port $2$3 is taken by something else. Choose another: $4 make run"
}

while [ $# -gt 0 ]; do
    case $1 in
    --lock) lock=${2:?"--lock: a value must follow"} && shift ;;
    --lock=*) lock=${1#*=} ;;
    --listen | --listen=*) fail "Here it is not --listen, but SECKILL_LISTEN=127.0.0.1:8081 make run" ;;
    --operator-listen | --operator-listen=*) fail "Here one address serves everything. With two: $build/seckilld $1 …" ;;
    --redis | --redis=*) fail "Here seckilld has a Redis of its own. With another: $build/seckilld $1 …" ;;
    *) flags+=("$1") ;;
    esac
    shift
done
case $lock in
etcd:) lock=etcd://127.0.0.1:$etcd_port ;;
redis:) lock=redis://127.0.0.1:$redis_port ;;
esac
flags+=(--lock "$lock")

mkdir -p var/redis var/etcd || exit 1
exec 9>var/run.lock || exit 1
flock -n 9 || fail "Already running from this directory. End that one first (Ctrl-C)."
bare_host=${host#[}
refuse_taken "${bare_host%]}" "$port" "" SECKILL_LISTEN=127.0.0.1:8081
refuse_taken 127.0.0.1 "$redis_port" " (for Redis)" SECKILL_REDIS_PORT=6391
for taken in "$etcd_port" "$etcd_peer_port"; do
    refuse_taken 127.0.0.1 "$taken" " (for etcd)" SECKILL_ETCD_PORT=2392
done

trap end_all EXIT
trap 'say; say "Ending: draining seckilld, then etcd and Redis."; exit 0' INT TERM HUP

deploy/mend-aof.sh var/redis || fail "The data in var/redis is damaged."
start var/redis.log redis-server deploy/redis.conf --port "$redis_port" --dir "$PWD/var/redis" --daemonize no
redis_pid=$!
# Old revisions are of no use to a lock, and would fill the disk.
start var/etcd.log etcd --name seckill --data-dir "$PWD/var/etcd" --logger zap --log-outputs stderr \
    --auto-compaction-mode revision --auto-compaction-retention 100000 \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$etcd_peer_port" \
    --initial-advertise-peer-urls "http://127.0.0.1:$etcd_peer_port" \
    --initial-cluster "seckill=http://127.0.0.1:$etcd_peer_port"
etcd_pid=$!
wait_until $redis_pid redis_answers ||
    fail "redis-server does not answer. The end of var/redis.log:" var/redis.log
wait_until $etcd_pid etcd_answers || fail "etcd does not answer. The end of var/etcd.log:" var/etcd.log

if [ -n "${SECKILL_ADMIN_TOKEN_FILE:-}" ]; then
    SECKILL_ADMIN_TOKEN=$(cat "$SECKILL_ADMIN_TOKEN_FILE") || fail "SECKILL_ADMIN_TOKEN_FILE: cannot read $SECKILL_ADMIN_TOKEN_FILE"
    unset SECKILL_ADMIN_TOKEN_FILE
fi
[ -n "${SECKILL_ADMIN_TOKEN:-}" ] || SECKILL_ADMIN_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export SECKILL_ADMIN_TOKEN
rm -f var/admin-token
printf '%s\n' "$SECKILL_ADMIN_TOKEN" >var/admin-token

start var/seckilld.log "$build/seckilld" --listen "$listen" --redis "redis://127.0.0.1:$redis_port" \
    "${flags[@]}"
seckilld_pid=$!
wait_until $seckilld_pid seckilld_answers ||
    fail "seckilld does not answer. The end of var/seckilld.log:" var/seckilld.log

# What earlier runs have put on sale on other terms.
kept=()

# put ITEM TERMS. 201: new; 200: there from an earlier run; 409: the same, and on other terms.
put() {
    local code
    code=$(admin -o /dev/null -w '%{http_code}' -X PUT "$url/v1/items/$1" -H 'Content-Type: application/json' -d "$2")
    case $code in
    200 | 201) ;;
    409) kept+=("$1") ;;
    *) fail "The item $1 could not be made: $code. The end of var/seckilld.log:" var/seckilld.log ;;
    esac
}

put demo '{"stock":100,"per_user_limit":2}'
for i in {0..9}; do put "demo-$i" '{"stock":1000}'; done
demo=$(curl -s "$url/v1/items/demo")
left=$(sed -n 's/.*"available": *\([0-9]*\).*/\1/p' <<<"$demo")
strategy=$(sed -n 's/.*"strategy": *"\([a-z]*\)".*/\1/p' <<<"$demo")

cat <<END

seckilld serves $url. Ctrl-C ends it. Logs, data and the admin token are in var/.
On sale: demo, $left left, at most 2 a user, and for baskets demo-0 to demo-9. In another terminal, buy one:

  curl -i $url/v1/purchases -H 'Idempotency-Key: first-try' -H 'Content-Type: application/json' -d '{"item":"demo","user":"alice","quantity":1}'

The same line again answers with the same order; another key or user makes another one. What is left, and the books:

  curl $url/v1/items/demo
  curl -H "Authorization: Bearer \$(cat var/admin-token)" $url/v1/items/demo/audit

END
[ "$left" != 0 ] || cat <<END
It is sold out. For more (each key restocks once):

  curl -H "Authorization: Bearer \$(cat var/admin-token)" -H "Idempotency-Key: \$(date +%s)" -H 'Content-Type: application/json' -d '{"quantity":100}' $url/v1/items/demo/restock

END

[ ${#kept[@]} -eq 0 ] || cat <<END
WARNING: an earlier run has put ${kept[*]} on sale on other terms, which do not change: demo is still sold by
strategy $strategy. To begin anew with what the flags say now: Ctrl-C, make reset, and make run with them again.

END

wait -n "$redis_pid" "$etcd_pid" "$seckilld_pid" 2>/dev/null
kill -0 "$redis_pid" 2>/dev/null ||
    fail "redis-server ended by itself. The end of var/redis.log:" var/redis.log
kill -0 "$etcd_pid" 2>/dev/null || fail "etcd ended by itself. The end of var/etcd.log:" var/etcd.log
fail "seckilld ended by itself. The end of var/seckilld.log:" var/seckilld.log
