#!/bin/bash
# bench.sh: measures sales, beside the ceilings of the HTTP library and of the store, in one run.
# Prints a table, and writes the same as JSON to BENCH_JSON (build/bench.json). BENCH_SECONDS (4): seconds for each result.
# shellcheck disable=SC2119,SC2154 # stage_seckilld without flags; redis_port, redis_pid, url and seckilld_pid are set by stage.sh
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=loadtest/stage.sh
. loadtest/stage.sh

seconds=${BENCH_SECONDS:-4}
[ "$seconds" -ge 3 ] || { echo "BENCH_SECONDS must be at least 3: CPU time is sampled in the middle" >&2; exit 2; }
out=${BENCH_JSON:-$build/bench.json}
lines=$stage_dir/lines.json
failed=0

# load NAME ITEM FLAG...: runs seckill-load, with its results in $stage_dir/NAME.json. Without a clean verdict the benchmark fails.
load() {
    local name=$1 item=$2
    shift 2
    echo "measuring $name" >&2
    "$build/seckill-load" --url "$url" --item "$item" --users 1000000 --duration "${seconds}s" --json "$stage_dir/$name.json" \
        "$@" >"$stage_dir/$name.txt" 2>&1 || { failed=1; cat "$stage_dir/$name.txt" >&2; }
}

store_bytes() { redis-cli -p "$redis_port" info memory | awk -F: '/^used_memory:/ { print $2 + 0 }'; }

# CPU time of seckilld and Redis for each purchase, sampled in the middle of the load, without start, audit and end.
sample() {
    local s0 r0 n0 s1 r1 n1
    sleep 1
    n0=$(stage_purchases) s0=$(cpu_us "$seckilld_pid") r0=$(cpu_us "$redis_pid")
    sleep $((seconds > 2 ? seconds - 2 : 1))
    n1=$(stage_purchases) s1=$(cpu_us "$seckilld_pid") r1=$(cpu_us "$redis_pid")
    awk -v n=$((n1 - n0)) -v s=$((s1 - s0)) -v r=$((r1 - r0)) 'BEGIN { n = n ? n : 1; printf "{\"seckilld\":%.2f,\"redis\":%.2f}", s / n, r / n }'
}

# orders FSYNC ITEMS CONNECTIONS
orders() {
    local fsync=$1 items=$2 connections=$3 name=orders-$1-$2-$3 before after cpu
    stage_redis "$fsync"
    stage_seckilld
    stage_items bench "$items" '{"stock":1000000000,"per_user_limit":5}'
    before=$(store_bytes)
    sample >"$stage_dir/cpu" &
    load "$name" bench --items "$items" --connections "$connections"
    wait $!
    cpu=$(cat "$stage_dir/cpu")
    after=$(store_bytes)
    jq -c --arg fsync "$fsync" --argjson items "$items" --argjson connections "$connections" --argjson cpu "$cpu" --argjson bytes $((after - before)) \
        '{what: "orders", appendfsync: $fsync, items: $items, connections: $connections, per_second: .accepted_per_second,
          latency_ms: .accepted_latency_ms, cpu_us: $cpu, bytes_an_order: (if .orders > 0 then $bytes / .orders else 0 end),
          clean: .verdict.clean}' "$stage_dir/$name.json" >>"$lines"
    stage_end "$seckilld_pid"
    stage_end "$redis_pid"
}

# sold_out CONNECTIONS
sold_out() {
    local name=sold-out-$1 cpu
    stage_redis always
    stage_seckilld
    stage_item bench '{"stock":100}'
    sample >"$stage_dir/cpu" &
    load "$name" bench --connections "$1"
    wait $!
    cpu=$(cat "$stage_dir/cpu")
    jq -c --argjson connections "$1" --argjson cpu "$cpu" '{what: "sold out", appendfsync: "always", items: 1, connections: $connections,
        per_second: .rejected_per_second, latency_ms: .rejected_latency_ms, cpu_us: $cpu, clean: .verdict.clean}' "$stage_dir/$name.json" >>"$lines"
    stage_end "$seckilld_pid"
    stage_end "$redis_pid"
}

# constant CONNECTIONS: the HTTP library alone, with a constant answer.
constant() {
    local port name=constant-$1
    port=$(stage_port)
    "$build/bench-constant" "$port" "$(nproc)" 409 &
    local pid=$!
    stage_pids+=("$pid")
    url=http://127.0.0.1:$port
    stage_wait curl -sf "$url/"
    load "$name" bench --connections "$1"
    jq -c --argjson connections "$1" '{what: "constant answer", connections: $connections, per_second: .rejected_per_second,
        latency_ms: .rejected_latency_ms}' "$stage_dir/$name.json" >>"$lines"
    stage_end "$pid"
}

# store FSYNC ITEMS BATCH IN_FLIGHT: Redis alone.
store() {
    local rate median
    stage_redis "$1"
    read -r rate median < <("$build/bench-store" "$redis_port" "$2" "$3" "$4" "$seconds")
    jq -nc --arg fsync "$1" --argjson items "$2" --argjson batch "$3" --argjson in_flight "$4" --argjson rate "$rate" --argjson median "$median" \
        '{what: "store alone", appendfsync: $fsync, items: $items, batch: $batch, in_flight: $in_flight, per_second: $rate, latency_ms: {p50: $median}}' >>"$lines"
    stage_end "$redis_pid"
}

echo "Twenty measurements of about $((seconds + 4)) s each, then the table." >&2
constant 1
constant 64
constant 512
store always 1 1 1
for fsync in no always; do
    store $fsync 1 128 2
    store $fsync 10000 128 2
    orders $fsync 1 1
    for items in 1 10000; do
        for connections in 64 512; do orders $fsync $items $connections; done
    done
done
for connections in 64 512; do sold_out $connections; done

jq -s --arg machine "$(stage_machine)" '{machine: $machine, figures: .}' "$lines" >"$out"
echo "$(stage_machine); the generator, the service and the store share it"
jq -r '
    def f(n): if . == null then "-" else (. * pow(10; n) | round / pow(10; n) | tostring) end;
    ["measurement", "fsync", "items", "conns", "a second", "p50 ms", "p99 ms", "p99.9 ms", "us seckilld", "us redis", "bytes/order"],
    (.figures[] | [.what + (if .batch then ", batch \(.batch)x\(.in_flight)" else "" end), .appendfsync // "-", .items // "-", .connections // "-",
        (.per_second | round), (.latency_ms.p50 | f(2)), (.latency_ms.p99 | f(2)), (.latency_ms.p99_9 | f(2)),
        (.cpu_us.seckilld | f(1)), (.cpu_us.redis | f(1)), (.bytes_an_order | f(0))]) | @tsv' "$out" |
    awk -F '\t' '{ printf "%-27s %-7s %6s %6s %9s %8s %8s %9s %12s %9s %12s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 }'
jq -r '
    def one(w; c): first(.figures[] | select(.what == w and (.connections == c)));
    "sold-out answers: \(one("sold out"; 512).per_second / one("constant answer"; 512).per_second * 100 | round / 100) of the constant answer at 512 connections, \(one("sold out"; 64).per_second / one("constant answer"; 64).per_second * 100 | round / 100) at 64",
    "one connection: a purchase takes \(first(.figures[] | select(.what == "orders" and .connections == 1 and .appendfsync == "always")).latency_ms.p50 / (one("constant answer"; 1).latency_ms.p50 + first(.figures[] | select(.what == "store alone" and .in_flight == 1)).latency_ms.p50) * 100 | round / 100) of a constant answer and a script call together"' "$out"
exit $failed
