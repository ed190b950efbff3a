#!/bin/bash
# baskets.sh: sells the same baskets in every way, with 32 connections and two servers: baskets of three lines, of ten items with 200
# units each, of which the first are most in demand. Prints which ways oversold, their rates, and the waits for locks. Then measures
# how much 32 connections that buy baskets slow down the purchases of another item. Last, baskets and purchases want the same items:
# measures how many baskets had to refund units, and for how long nobody could buy those units. BASKETS_ROUNDS (3): repetitions of
# the last two. BASKETS_SECONDS (4): seconds for each of their results. Exit status 1 if a result is unexpected.
# shellcheck disable=SC2154 # redis_port, url and seckilld_pid are set by stage.sh
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=loadtest/stage.sh
. loadtest/stage.sh

rounds=${BASKETS_ROUNDS:-3} seconds=${BASKETS_SECONDS:-4} wrong=0 serial=0 items=10 stock=200

metric() { curl -s "$1/metrics" | awk -v name="$2" '$1 == name { print $2 }'; }

# sale NAME MUST FLAG...: baskets on two servers with these flags; prints a line. MUST is oversell, hold, or hold-alone:
# there is one server then.
sale() {
    local name=$1 must=$2 i pids=() urls=() json verdict over rate p99 wait acquired
    shift 2
    stage_seckilld "$@"
    pids=("$seckilld_pid") urls=(--url "$url")
    if [ "$must" != hold-alone ]; then
        stage_seckilld "$@"
        pids+=("$seckilld_pid") urls+=(--url "$url")
    fi
    serial=$((serial + 1)) json=$stage_dir/sale-$serial.json
    for ((i = 0; i < items; i++)); do stage_item "sale-$serial-$i" "{\"stock\":$stock}"; done
    "$build/seckill-load" "${urls[@]}" --item "sale-$serial" --items "$items" --basket-lines 3 --zipf 0.5 --users 5000 \
        --requests 2000 --connections 32 --json "$json" >"$stage_dir/sale.txt" 2>&1
    [ -s "$json" ] || { cat "$stage_dir/sale.txt" >&2; exit 1; }
    read -r over rate p99 verdict < <(jq -r '[.verdict.oversold, .baskets.accepted / .seconds, .baskets.accepted_latency_ms.p99,
        ([.verdict | to_entries[] | select((.value | type) == "number" and .value > 0) | "\(.value) \(.key)"] |
            if length == 0 then "clean" else join(", ") end)] | @tsv' "$json")
    wait=0 acquired=0
    for i in "${urls[@]}"; do
        [ "$i" = --url ] && continue
        wait=$(awk -v a="$wait" -v b="$(metric "$i" seckill_lock_wait_seconds_total)" 'BEGIN { print a + b }')
        acquired=$(awk -v a="$acquired" -v b="$(metric "$i" seckill_lock_acquired_total)" 'BEGIN { print a + b }')
    done
    for i in "${pids[@]}"; do stage_end "$i"; done
    if [[ $must = oversell && $over -eq 0 ]] || [[ $must = hold* && $verdict != clean ]]; then
        wrong=1 verdict="UNEXPECTED: $verdict"
    fi
    printf '%-36s %9s %10.0f %8.1f %13s  %s\n' "$name" "$over" "$rate" "$p99" \
        "$(awk -v w="$wait" -v n="$acquired" 'BEGIN { if (n > 0) printf "%.2f", 1000 * w / n; else printf "-" }')" "$verdict"
}

# purchases: orders a second of one item, over 256 connections; a new item each time, since its audit reads all orders.
purchases() {
    stage_item "one-$BASHPID" '{"stock":1000000000}'
    "$build/seckill-load" --url "$url" --item "one-$BASHPID" --users 1000000 --connections 256 --duration "${seconds}s" \
        --json "$stage_dir/one.json" >"$stage_dir/one.txt" 2>&1 || { cat "$stage_dir/one.txt" >&2; exit 1; }
    jq -r '.accepted_per_second | round' "$stage_dir/one.json"
}

# beside NAME FLAG...: the same beside baskets of other items, and alone before and after it, since machines drift.
beside() {
    local name=$1 i round before with after load
    shift
    stage_seckilld "$@"
    for ((i = 0; i < items; i++)); do stage_item "many-$i" '{"stock":1000000000}'; done
    after=$(purchases) || exit 1
    for ((round = 1; round <= rounds; round++)); do
        before=$after
        "$build/seckill-load" --url "$url" --item many --items "$items" --basket-lines 3 --connections 32 \
            --duration $((seconds + 1))s --json "$stage_dir/many.json" >"$stage_dir/many.txt" 2>&1 &
        load=$!
        sleep 0.5
        with=$(purchases) || exit 1
        wait "$load" || { cat "$stage_dir/many.txt" >&2; exit 1; }
        after=$(purchases) || exit 1
        printf '%-36s %9d %9d %9d %6s %10.0f %8.1f\n' "$name" "$before" "$with" "$after" \
            "$(awk -v a="$before" -v b="$with" -v c="$after" 'BEGIN { printf "%.2f", 2 * b / (a + c) }')" \
            "$(jq -r '.baskets.accepted / .seconds' "$stage_dir/many.json")" \
            "$(jq -r '.baskets.accepted_latency_ms.p99' "$stage_dir/many.json")"
    done
    stage_end "$seckilld_pid"
}

# mixed NAME FLAG...: nine purchases for each basket of the same ten items, until all is sold.
mixed() {
    local name=$1 i round verdict json=$stage_dir/mixed.json
    shift
    for ((round = 1; round <= rounds; round++)); do
        stage_seckilld "$@"
        serial=$((serial + 1))
        for ((i = 0; i < items; i++)); do stage_item "mixed-$serial-$i" '{"stock":500}'; done
        "$build/seckill-load" --url "$url" --item "mixed-$serial" --items "$items" --basket-lines 3 --purchases 90 --users 50000 \
            --requests 20000 --connections 64 --json "$json" >"$stage_dir/mixed.txt" 2>&1
        [ -s "$json" ] || { cat "$stage_dir/mixed.txt" >&2; exit 1; }
        verdict=$(jq -r 'if .verdict.clean then "clean" else "UNEXPECTED: \(.verdict)" end' "$json")
        [ "$verdict" = clean ] || wrong=1
        printf '%-36s %9d %9d %9d %13s %9s  %s\n' "$name" "$(jq .baskets.accepted "$json")" "$(jq .baskets.rejected "$json")" \
            "$(metric "$url" 'seckill_basket_phantom_seconds_count{outcome="aborted"}')" \
            "$(metric "$url" 'seckill_basket_phantom_seconds_sum{outcome="aborted"}' | awk '{ printf "%.1f", 1000 * $1 }')" \
            "$(jq ".purchases.latency_ms.p99 * 100 | round / 100" "$json")" "$verdict"
        stage_end "$seckilld_pid"
    done
}

stage_redis always
stage_etcd
redis=redis://127.0.0.1:$redis_port etcd=etcd://127.0.0.1:$etcd_port

echo "This takes about $(((120 + rounds * (60 + 6 * seconds)) / 60)) minutes; each line appears when it is measured."
echo "Baskets of three lines, ten items of $stock units, 32 connections, 2000 requests. $(stage_machine)"
printf '%-36s %9s %10s %8s %13s  %s\n' way oversold baskets/s 'p99 ms' 'lock wait ms' verdict
sale 'script' hold --basket script
sale 'locked, redis:' hold --lock "$redis"
sale 'locked, etcd:' hold --lock "$etcd"
sale 'locked, local:, 1 server' hold-alone --lock local:
sale 'naive, redis:' hold --teaching --basket naive --lock "$redis"
sale 'naive, etcd:' hold --teaching --basket naive --lock "$etcd"
sale 'naive, none:' oversell --teaching --basket naive --lock none:
sale 'naive, local:, 2 servers' oversell --teaching --basket naive --lock local:
sale 'naive, set-del, TTL too short' oversell --teaching --basket naive --fencing off --work-delay 15 --lock "$redis?variant=set-del&ttl=10"
sale 'naive, redis:, TTL too short' oversell --teaching --basket naive --fencing off --work-delay 15 --lock "$redis?ttl=10"

echo
echo "Purchases of one item over 256 connections, alone, beside 32 connections that buy baskets of other items, and alone again"
printf '%-36s %9s %9s %9s %6s %10s %8s\n' 'lock of the baskets' alone/s beside/s alone/s ratio baskets/s 'p99 ms'
beside 'none (script)' --basket script
beside 'redis:' --lock "$redis"
beside 'etcd:' --lock "$etcd"

echo
echo "Nine purchases for each basket of three lines, the same ten items of 500 units, 64 connections, until all is sold"
printf '%-36s %9s %9s %9s %13s %9s  %s\n' 'lock of the baskets' baskets failed refunded 'gone ms, all' 'p99 ms' verdict
mixed 'redis:' --lock "$redis"
mixed 'etcd:' --lock "$etcd"
exit $wrong
