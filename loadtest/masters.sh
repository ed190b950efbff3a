#!/bin/bash
# masters.sh: measures the CPU time that a purchase of one of ten thousand items costs the service and the stores, with
# one Redis and with a Redis Cluster of one, three and six masters, in turns on this machine. Each master adds the same
# number of connections to the load, as a machine of its own would. If the costs stay the same, capacity grows with the
# machines. As the control it also measures the cost of an order for two and six servers without service and cluster,
# each driven by a bench-store of its own: the difference between the two is the price of sharing the cores of this
# machine. Writes JSON to MASTERS_JSON (build/masters.json). MASTERS_SECONDS (8): seconds for each result.
# MASTERS_ROUNDS (3): rounds, of which it prints the medians. MASTERS_CONNECTIONS (128): connections for each master.
# shellcheck disable=SC2154,SC2317 # redis_port, redis_pid, url and seckilld_pid are set by stage.sh, which also calls knows_all
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=loadtest/stage.sh
. loadtest/stage.sh

seconds=${MASTERS_SECONDS:-8}
rounds=${MASTERS_ROUNDS:-3}
connections=${MASTERS_CONNECTIONS:-128}
out=${MASTERS_JSON:-build/masters.json}
lines=$stage_dir/lines.json
controls=$stage_dir/controls.json
items=10000
failed=0
redis_pids=()

# start_stores MASTERS: 0: one Redis, and no cluster. Sets store and redis_pids.
start_stores() {
    local i servers=() more=()
    redis_pids=()
    for ((i = 0; i < ($1 ? $1 : 1); i++)); do
        [ "$1" -eq 0 ] || more=(--cluster-enabled yes --cluster-port "$(stage_port)")
        stage_redis no "${more[@]}"
        redis_pids+=("$redis_pid")
        servers+=("127.0.0.1:$redis_port")
    done
    store=redis://${servers[0]}
    [ "$1" -eq 0 ] && return
    store=redis-cluster://${servers[0]}
    # redis-cli makes none of fewer than three.
    for ((i = 0; i < $1; i++)); do
        redis-cli -p "${servers[i]##*:}" cluster addslotsrange $((16384 * i / $1)) $((16384 * (i + 1) / $1 - 1))
        ((i == 0)) || redis-cli -p "${servers[0]##*:}" cluster meet 127.0.0.1 "${servers[i]##*:}" \
            "$(redis-cli -p "${servers[i]##*:}" config get cluster-port | tail -n 1)"
    done >"$stage_dir/cluster.log" 2>&1
    for ((i = 0; i < $1; i++)); do stage_wait knows_all "${servers[i]##*:}" "$1"; done
}

knows_all() {
    redis-cli -p "$1" cluster info | grep -q cluster_state:ok &&
        redis-cli -p "$1" cluster info | grep -q "cluster_known_nodes:$2"
}

cpu_all() {
    local pid sum=0
    for pid in "$@"; do sum=$((sum + $(cpu_us "$pid"))); done
    echo $sum
}

# sample: microseconds of processor a purchase, in the middle of the load, of the service and of all stores together.
sample() {
    local n s r
    sleep 1
    n=$(stage_purchases) s=$(cpu_us "$seckilld_pid") r=$(cpu_all "${redis_pids[@]}")
    sleep $((seconds - 2))
    n=$(($(stage_purchases) - n)) s=$(($(cpu_us "$seckilld_pid") - s)) r=$(($(cpu_all "${redis_pids[@]}") - r))
    awk -v n="$n" -v s="$s" -v r="$r" 'BEGIN { n = n ? n : 1; printf "{\"seckilld\":%.2f,\"redis\":%.2f}", s / n, r / n }'
}

# measure MASTERS
measure() {
    local pid all=$((connections * ($1 ? $1 : 1)))
    echo "measuring ${1/#0/no cluster, 1} master(s), $all connections" >&2
    start_stores "$1"
    stage_seckilld --redis "$store"
    stage_items bench $items '{"stock":1000000000}'
    sample >"$stage_dir/cpu" &
    "$build/seckill-load" --url "$url" --item bench --items $items --users 1000000 --duration "${seconds}s" \
        --connections "$all" --json "$stage_dir/load.json" >"$stage_dir/load.txt" 2>&1 || { failed=1; cat "$stage_dir/load.txt" >&2; }
    wait $!
    jq -c --argjson masters "$1" --argjson connections "$all" --argjson cpu "$(cat "$stage_dir/cpu")" \
        '{masters: $masters, connections: $connections, per_second: .accepted_per_second, cpu_us: $cpu, clean: .verdict.clean}' \
        "$stage_dir/load.json" >>"$lines"
    stage_end "$seckilld_pid"
    for pid in "${redis_pids[@]}"; do stage_end "$pid"; done
}

# alone SERVERS: the control. One order a call, as in a cluster.
alone() {
    local pid port ports=() loads=() r n before=0 after=0
    echo "measuring $1 servers, without service and cluster" >&2
    redis_pids=()
    for ((n = 0; n < $1; n++)); do
        stage_redis no
        redis_pids+=("$redis_pid")
        ports+=("$redis_port")
    done
    for port in "${ports[@]}"; do
        "$build/bench-store" "$port" $((items / $1)) 1 16 "$seconds" >"$stage_dir/alone-$port.txt" &
        loads+=($!)
    done
    sleep 1
    for port in "${ports[@]}"; do before=$((before + $(orders_of "$port"))); done
    r=$(cpu_all "${redis_pids[@]}")
    sleep $((seconds - 2))
    for port in "${ports[@]}"; do after=$((after + $(orders_of "$port"))); done
    r=$(($(cpu_all "${redis_pids[@]}") - r))
    for pid in "${loads[@]}"; do wait "$pid" || failed=1; done
    jq -nc --argjson servers "$1" --argjson n $((after - before)) --argjson r $r --argjson seconds $((seconds - 2)) \
        '{servers: $servers, per_second: ($n / $seconds), redis_us: (if $n > 0 then $r / $n else 0 end)}' >>"$controls"
    for pid in "${redis_pids[@]}"; do stage_end "$pid"; done
}

# Each order of a lone purchase is one HSETNX.
orders_of() { redis-cli -p "$1" info commandstats | awk -F '[=,]' '/^cmdstat_hsetnx:/ { n = $2 } END { print n + 0 }'; }

echo "$((rounds * 6)) measurements of about $((seconds + 6)) s each, then the table." >&2
for ((round = 0; round < rounds; round++)); do
    for masters in 0 1 3 6; do measure $masters; done
    for servers in 2 6; do alone $servers; done
done
jq -s --arg machine "$(stage_machine)" --slurpfile controls "$controls" '
    def median(f): map(f) | sort | .[(length - 1) / 2 | floor];
    {machine: $machine, figures: (group_by(.masters) | map({masters: .[0].masters, connections: .[0].connections,
        per_second: median(.per_second), seckilld_us: median(.cpu_us.seckilld), redis_us: median(.cpu_us.redis),
        clean: all(.clean)})),
     alone: ($controls | group_by(.servers) | map({servers: .[0].servers, per_second: median(.per_second), redis_us: median(.redis_us)}))}' \
    "$lines" >"$out"
echo "$(stage_machine); ten thousand items, appendfsync no; the generator, the service and the stores share it"
jq -r '["store", "conns", "orders/s", "us seckilld", "us redis"],
    (.figures[] | [if .masters == 0 then "one Redis" else "cluster of \(.masters)" end, .connections, (.per_second | round), .seckilld_us, .redis_us]),
    (.alone[] | ["\(.servers) Redis alone", "-", (.per_second | round), "-", (.redis_us * 100 | round / 100)])
    | @tsv' "$out" | awk -F '\t' '{ printf "%-14s %6s %10s %12s %10s\n", $1, $2, $3, $4, $5 }'
exit $failed
