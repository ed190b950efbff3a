#!/bin/bash
# oversell.sh: plays the same sale with every strategy: a hundred units, 64 connections, 5,000 buyers, a fifth of the requests repeated.
# Prints which strategies oversold, and why. OVERSELL_ROUNDS (1): repetitions. Exit status 1 if a result is unexpected.
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=loadtest/stage.sh
. loadtest/stage.sh

stock=100 rounds=${OVERSELL_ROUNDS:-1} wrong=0

# sale NAME STRATEGY MUST WHY URL...: sells and prints a line. MUST is oversell or hold.
sale() {
    local name=$1 strategy=$2 must=$3 why=$4 item json urls=() each sold over rate sold_p99 refused_p99
    shift 4
    for each in "$@"; do urls+=(--url "$each"); done
    item=$strategy-$((++serial))
    json=$stage_dir/$item.json
    url=$1 stage_item "$item" "{\"stock\":$stock,\"strategy\":\"$strategy\"}"
    "$build/seckill-load" "${urls[@]}" --item "$item" --users 5000 --requests 5000 --connections 64 --duplicates 20 \
        --json "$json" >"$stage_dir/$item.txt" 2>&1
    [ -s "$json" ] || { cat "$stage_dir/$item.txt" >&2; exit 1; }
    read -r sold over rate sold_p99 refused_p99 < <(jq -r '[.orders, .verdict.oversold, .accepted_per_second,
        .accepted_latency_ms.p99, .rejected_latency_ms.p99] | @tsv' "$json")
    if [[ $must = oversell && $over -eq 0 ]] || [[ $must = hold && ($over -ne 0 || $sold -ne $stock) ]]; then
        wrong=1 why="UNEXPECTED: $why"
    fi
    printf '%-24s %6s %9s %9.0f %12.1f %15.1f  %s\n' "$name" "$sold" "$over" "$rate" "$sold_p99" "$refused_p99" "$why"
}

serial=0
stage_redis always
locks=redis://127.0.0.1:$redis_port
# All servers on one database use one lock.
stage_seckilld --teaching --redis "$locks/1" --lock none:
unlocked=$url
stage_seckilld --teaching --redis "$locks/2" --lock local:
first=$url
stage_seckilld --teaching --redis "$locks/2" --lock local:
second=$url
stage_seckilld --teaching --redis "$locks/3" --fencing off --work-delay 15 --lock "$locks?variant=set-del&ttl=10"
deleted=$url
stage_seckilld --teaching --redis "$locks/4" --lock "$locks"
third=$url
stage_seckilld --teaching --redis "$locks/4" --lock "$locks"
fourth=$url

echo "A hundred units, 64 connections, 5000 buyers, 20 % of the requests repeated. $(stage_machine)"
printf '%-24s %6s %9s %9s %12s %15s  %s\n' strategy sold oversold sales/s 'p99 sold ms' 'p99 refused ms' why
for ((round = 1; round <= rounds; round++)); do
    sale naive naive oversell "read, compare, write: a concurrent sale is overwritten" "$first"
    sale 'locked, none:' locked oversell "the same under a lock that locks nothing" "$unlocked"
    sale 'locked, local:, 2 servers' locked oversell "the same under a mutex that the other process does not share" "$first" "$second"
    sale 'locked, set-del' locked oversell "the lock expires during the work, and its release deletes another holder's" "$deleted"
    sale 'locked, local:, 1 server' locked hold "the same under a mutex that all sellers share: right, one at a time" "$first"
    sale 'locked, owner, 2 servers' locked hold "a lock in Redis that all sellers share, with a fence" "$third" "$fourth"
    sale decr decr hold "DECRBY is atomic; a sale below zero is refunded" "$first" "$second"
    sale optimistic optimistic hold "EXEC fails if the item changed after the read" "$first" "$second"
    sale lua lua hold "one script: no command runs between read and write" "$first" "$second"
    sale batch batch hold "one script for all waiting purchases" "$first" "$second"
done
exit $wrong
