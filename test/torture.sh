#!/bin/bash
# torture.sh: kills under load, with every program that can, and writes docs/evidence.md of it. SECKILL_TORTURE_ROUNDS,
# SECKILL_TORTURE_SECONDS: how often, instead of the numbers here. A program that fails does not stop the others, and is
# named there.
set -u
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1
export SECKILL_BUILD=${SECKILL_BUILD:-build}
export SECKILL_EVIDENCE=$PWD/$SECKILL_BUILD/evidence.jsonl
rounds=${SECKILL_TORTURE_ROUNDS:-} seconds=${SECKILL_TORTURE_SECONDS:-} failed=()
rm -f "$SECKILL_EVIDENCE"

# play ROUNDS SECONDS PROGRAM [TEST]
play() {
    echo "== $3 ${4:-}"
    SECKILL_TORTURE_ROUNDS=${rounds:-$1} SECKILL_TORTURE_SECONDS=${seconds:-$2} "$SECKILL_BUILD/test/$3" "${@:4}" || failed+=("$3")
}

play 200 0 loadtest_torture
play 50 0 loadtest_failovers
# Its kinds side by side, since they mostly wait.
campaign=$SECKILL_BUILD/test/service_campaign
SECKILL_TORTURE_ROUNDS=1 "$campaign" -l | sed 's/round .*/round/' >"$SECKILL_BUILD/kinds"
# shellcheck disable=SC2016 # the inner shell expands it
SECKILL_TORTURE_ROUNDS=${rounds:-30} xargs -d '\n' -n 1 -P "${SECKILL_JOBS:-4}" \
    sh -c 'out=$("$0" "$1" 2>&1); status=$?; echo "$out"; exit $status' "$campaign" <"$SECKILL_BUILD/kinds" || failed+=(service_campaign)
play 0 60 loadtest_slots
play 100 0 lock_etcd_cluster fail
play 0 300 lock_holders
play 500 0 service_basket_torture
play 100 0 loadtest_mixture
python3 test/evidence.py "$SECKILL_EVIDENCE" docs/evidence.md "${failed[@]}" || failed+=(evidence.py)
exit $((${#failed[@]} > 0))
