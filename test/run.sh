#!/bin/bash
# run.sh PROGRAM...: runs test programs, six at a time (SECKILL_JOBS), as most of them mostly wait, and ends
# with the line "N passed, N failed". A program that ends in any way but by its own summary line, or runs no
# test, counts as a failed test. What the programs leave is kept only where one failed.
set -u

run_one() {
    local program=$1 out ok not status pid
    out=$results/$(basename "$program")
    # In a session of its own: where the scheduler shares the processor out among sessions, the program and its servers
    # do not starve beside what else runs in this one.
    setsid "$program" >"$out" 2>&1 &
    pid=$!
    trap 'kill -KILL $pid; exit 130' INT TERM
    wait $pid
    status=$?
    ok=$(grep -c '^ok   ' "$out")
    not=$(grep -c '^FAIL ' "$out")
    if [ "$not" -eq 0 ] && { [ $status -ne 0 ] || ! tail -n 1 "$out" | grep -q '^---- [1-9]'; }; then
        case $status in
        142) echo "FAIL $program: over its time limit" ;;
        *) echo "FAIL $program: ended before its time, status $status" ;;
        esac >>"$out"
        not=1
    fi
    echo "$ok $not" >"$out.count"
    # One block a program, whole.
    {
        flock 9
        echo "== $program"
        cat "$out"
    } 9<"$results"
}

# Stores write to memory where there is room for it (4 GB): on a disk that stalls for half a second they do not answer.
room=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)
[ -n "${TMPDIR:-}" ] || [ "${room:-0}" -lt 4000000 ] || [ ! -w /dev/shm ] ||
    grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts || TMPDIR=/dev/shm
results=$(mktemp -d "${TMPDIR:-/tmp}/seckill-tests-XXXXXX") || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT TERM
export results TMPDIR=$results
# A library that was not built with the sanitizer reads freed memory unseen, unless it reads nonsense there.
export ASAN_OPTIONS=${ASAN_OPTIONS:-max_free_fill_size=1000000000}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/test/lsan.supp:print_suppressions=0}
# What gRPC does with memory is not looked at: it is not built with the sanitizer, which does not see its locks,
# but does see its calls of memcpy(), free() and the like. What our own code does is, also when gRPC calls it.
export TSAN_OPTIONS=${TSAN_OPTIONS:-suppressions=$PWD/test/tsan.supp:ignore_noninstrumented_modules=1}
export -f run_one

# shellcheck disable=SC2016 # the inner shell expands it
[ $# -eq 0 ] || printf '%s\0' "$@" | xargs -0 -n 1 -P "${SECKILL_JOBS:-6}" bash -c 'run_one "$1"' run_one

passed=0 failed=0
for program in "$@"; do
    read -r ok not <"$results/$(basename "$program").count" || { ok=0 not=1; }
    passed=$((passed + ok)) failed=$((failed + not))
done
# Once more, with the program and what was wrong: above they stand among two thousand lines.
if [ "$failed" -gt 0 ]; then
    trap - EXIT
    echo "what the programs printed is in $results"
    cd "$results" && grep -HB 3 --no-group-separator '^FAIL ' -- "${@##*/}" | grep -v '.[:-]ok   '
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
