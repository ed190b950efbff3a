#!/bin/bash
# mend-aof.sh DIR: before a Redis starts again on DIR, cuts off what its end by a crash left half-written in the append-only file.
#
# Redis does that itself (aof-load-truncated), but wrongly where the crash fell into the writes of a script: 7.0 cuts in the middle of their
# MULTI, leaves what came before, and with the start after the next half of that script comes to life. redis-check-aof cuts before the MULTI.
# What is cut off was never acknowledged with `appendfsync always`; it is kept beside the file. Exit status 1: more than a last write is damaged.
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
dir=${1:?usage: mend-aof.sh DIR}
last_write=$((4 * 1024 * 1024))

mend() {
    local check name file bytes
    check=$(redis-check-aof "$1") && return
    name=$(sed -n 's/.*filename=\([^,]*\),.*/\1/p' <<<"$check" | tail -n 1) # of several files, since 7.0
    file=$(dirname "$1")/${name:-$(basename "$1")}
    bytes=$(sed -n 's/.*diff=\([0-9]*\).*/\1/p' <<<"$check" | tail -n 1)
    if [ ! -f "$file" ] || [ "${bytes:-0}" -eq 0 ] || [ "$bytes" -gt $last_write ]; then
        printf '%s\n%s: not mended. Look at it, and see redis-check-aof --fix.\n' "$check" "$1" >&2
        return 1
    fi
    tail -c "$bytes" "$file" >"$file.cut-$(date +%s)" && echo y | redis-check-aof --fix "$1" >/dev/null &&
        echo "$file: cut off $bytes bytes that a crash left half-written"
}

for aof in "$dir"/appendonlydir/*.manifest "$dir"/appendonly.aof; do
    [ ! -f "$aof" ] || mend "$aof" || exit 1
done
