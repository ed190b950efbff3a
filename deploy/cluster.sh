#!/bin/bash
# cluster.sh DIR [PORT]: a Redis Cluster of three masters with two replicas each, on loopback, until Ctrl-C: to try
# things on. Clients reach the servers on PORT (7101) and the next eight, they reach each other on the nine after.
# Data and logs are in DIR, and are found there the next time. What you killed comes back with
# `redis-server DIR/r0/redis.conf`. Redis 7.
# shellcheck disable=SC2317 # all_agree is only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

dir=$(realpath -m "${1:?usage: cluster.sh DIR [PORT]}")
port=${2:-7101}
deploy=$(realpath "$(dirname "$0")")
# shellcheck source=deploy/servers.sh
. "$deploy/servers.sh"

all_agree() {
    local i
    for i in {0..8}; do
        redis_says $((port + i)) cluster_state:ok CLUSTER INFO || return 1
        redis_says $((port + i)) 'role:master\|master_link_status:up' INFO replication || return 1
    done
}

want_free "$port" 18
servers=()
for i in {0..8}; do servers+=("127.0.0.1:$((port + i))"); done
# A master that is silent for two seconds is replaced; meanwhile the others go on.
for i in {0..8}; do
    redis_start "$dir/r$i" $((port + i)) 'cluster-enabled yes' "cluster-port $((port + 9 + i))" \
        'cluster-node-timeout 2000' 'cluster-require-full-coverage no'
done
redis_says "$port" '^cluster_known_nodes:1\b' CLUSTER INFO &&
    { redis-cli --cluster create "${servers[@]}" --cluster-replicas 2 --cluster-yes >"$dir/create.log" 2>&1 ||
        fail "The cluster was not made. See $dir/create.log"; }
wait_for 'A server' all_agree

for i in {0..8}; do echo "server ${servers[i]}, pid ${pids[i]}: $(redis-cli -p $((port + i)) ROLE | head -n 1)"; done

echo "seckilld --redis redis-cluster://${servers[0]},${servers[1]},${servers[2]} --replicas 1"
echo "Ctrl-C ends them."
wait
fail "All servers have ended."
