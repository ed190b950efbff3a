#!/bin/bash
# deaths.sh: measures for how long two instances sell nothing after kill -9 of a master, below Sentinels and in a
# cluster: from the death to the first 201 of either instance. First the servers take their time, until they name a new
# master; then the instances, which notice it, put back what was lost, and wait for each other. Prints medians and
# maxima, and writes JSON to DEATHS_JSON (build/deaths.json). DEATHS (10): deaths of each kind.
# shellcheck disable=SC2154,SC2317 # redis_port and url are set by stage.sh; is_well is only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=loadtest/stage.sh
. loadtest/stage.sh

deaths=${DEATHS:-10}
out=${DEATHS_JSON:-build/deaths.json}
lines=$stage_dir/lines.json
patience_ms=60000
store_pid=

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# The port of the item's master, as the servers tell their clients; "": there is none.
named() {
    local server
    if [ "$kind" = Sentinels ]; then
        redis-cli -p $((base + 4)) SENTINEL GET-MASTER-ADDR-BY-NAME shop | tail -n 1
        return
    fi
    for server in "${servers[@]}"; do
        [ "$(redis-cli -p "$server" ROLE 2>/dev/null | head -n 1)" = master ] &&
            [ "$(redis-cli -p "$server" EXISTS 'seckill:{54}:demo' 2>/dev/null)" = 1 ] && echo "$server" && return
    done
}

# The item's master has its replicas (in a cluster another one may join them), and both instances are ready.
is_well() {
    local master
    master=$(named) && [ -n "$master" ] &&
        [ "$(redis-cli -p "$master" INFO replication 2>/dev/null | grep -c 'state=online,offset=[1-9]')" -ge 2 ] &&
        curl -sf "${urls[0]}/readyz" && curl -sf "${urls[1]}/readyz"
}

# start KIND: sets base, servers, urls.
start() {
    local i
    kind=$1 base=$(stage_port) servers=() urls=()
    if [ "$kind" = Sentinels ]; then
        deploy/sentinel.sh "$stage_dir/$kind" "$base" >"$stage_dir/$kind.log" 2>&1 &
        servers=("$base" $((base + 1)) $((base + 2)))
        store=redis-sentinel://127.0.0.1:$((base + 3)),127.0.0.1:$((base + 4)),127.0.0.1:$((base + 5))/shop
    else
        deploy/cluster.sh "$stage_dir/$kind" "$base" >"$stage_dir/$kind.log" 2>&1 &
        for i in {0..8}; do servers+=($((base + i))); done
        store=redis-cluster://127.0.0.1:$base,127.0.0.1:$((base + 1)),127.0.0.1:$((base + 2))
    fi
    store_pid=$!
    until grep -q '^Ctrl-C' "$stage_dir/$kind.log"; do
        kill -0 $store_pid 2>/dev/null || stage_fail "the store did not start"
        sleep 0.1
    done
    redis_port=0
    for i in 0 1; do
        stage_seckilld --redis "$store" --workers 1
        urls+=("$url")
    done
    stage_item demo '{"stock":1000000}'
}

# death NUMBER: one line of JSON.
death() {
    local n=$1 master now began told=0 sold=0 try=0 status i
    for ((i = 0; i < 600; i++)); do
        is_well >/dev/null && break
        sleep 0.1
    done
    sleep 1
    master=$(named) began=$(now_ms)
    kill -KILL "$(redis-cli -p "$master" INFO server | tr -d '\r' | sed -n 's/^process_id://p')"
    while ((sold == 0 || told == 0)); do
        (($(now_ms) - began < patience_ms)) || stage_fail "nothing was sold for a minute after a death ($kind)"
        if ((told == 0)); then
            now=$(named)
            [ -z "$now" ] || [ "$now" = "$master" ] || told=$(now_ms)
        fi
        for url in "${urls[@]}"; do
            ((sold == 0)) || continue
            try=$((try + 1)) # not within $(…), which is a shell of its own
            status=$(curl -s -m 3 -o /dev/null -w '%{http_code}' "$url/v1/purchases" -H "Idempotency-Key: $kind-$n-$try" \
                -d '{"item":"demo","user":"u","quantity":1}')
            [ "$status" != 201 ] || sold=$(now_ms)
        done
    done
    redis-server "$stage_dir/$kind/r$((master - base))/redis.conf" --daemonize yes >/dev/null
    ((told <= sold)) || told=$sold
    echo "{\"kind\":\"$kind\",\"first_sale_ms\":$((sold - began)),\"named_ms\":$((told - began))}" >>"$lines"
}

end() {
    local server
    [ -n "$store_pid" ] || return 0
    kill -TERM "$store_pid"
    wait "$store_pid"
    for server in "${servers[@]}"; do redis-cli -p "$server" SHUTDOWN NOSAVE 2>/dev/null; done # those that were started again
    store_pid=
}
trap 'end; stage_close' EXIT

stage_machine
for kind in Sentinels cluster; do
    start "$kind"
    for ((n = 1; n <= deaths; n++)); do
        death "$n"
        [ ! -t 2 ] || printf '\r%s: %d of %d deaths ' "$kind" "$n" "$deaths" >&2
    done
    [ ! -t 2 ] || echo >&2
    end
done
mkdir -p "$(dirname "$out")" && jq -s . "$lines" >"$out"
printf '%-12s %8s %24s %24s %24s\n' '' deaths 'first sale, s: p50 / max' 'new master named' 'the instances'
for kind in Sentinels cluster; do
    jq -r --arg kind "$kind" 'def p50: sort | .[(length - 1) / 2 | floor]; def s: . / 1000 * 100 | round / 100;
        map(select(.kind == $kind)) | [$kind, length] +
        (map(.first_sale_ms) | [(p50 | s), (max | s)]) + (map(.named_ms) | [(p50 | s), (max | s)]) +
        (map(.first_sale_ms - .named_ms) | [(p50 | s), (max | s)]) | @tsv' "$out" |
        awk -F '\t' '{ printf "%-12s %8d %24s %24s %24s\n", $1, $2, $3 " / " $4, $5 " / " $6, $7 " / " $8 }'
done
