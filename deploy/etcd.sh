#!/bin/bash
# etcd.sh DIR [PORT]: three etcd members on loopback, until Ctrl-C: to try things on. Clients reach them on PORT
# (2479) and the next two, they reach each other on the three after. Data and logs are in DIR, and are found
# there the next time.
# shellcheck disable=SC2317 # end_all is only called by a trap
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
umask 077

dir=${1:?usage: etcd.sh DIR [PORT]}
port=${2:-2479}
pids=()

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

# One after the other: a leader that ends waits for a successor, and for long if the others end meanwhile.
end_all() {
    local pid
    trap - EXIT
    trap '' INT TERM HUP
    for pid in "${pids[@]}"; do
        kill -TERM "$pid" 2>/dev/null
        wait "$pid"
    done
}

answers() { [ "$(curl -s -m 5 "http://127.0.0.1:$1/health")" = '{"health":"true"}' ]; }

url() { printf 'http://127.0.0.1:%d' $((port + $1)); }

for i in 0 1 2 3 4 5; do
    (exec 3<>"/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null && fail "Port $((port + i)) is taken by something else."
done

trap end_all EXIT
trap 'exit 0' INT TERM HUP
for i in 0 1 2; do
    mkdir -p "$dir/m$i" || exit 1
    # In a session of its own, out of reach of the terminal's Ctrl-C.
    setsid setpriv --pdeathsig TERM etcd --name "m$i" --data-dir "$dir/m$i" --logger zap --log-outputs stderr \
        --listen-client-urls "$(url $i)" --advertise-client-urls "$(url $i)" \
        --listen-peer-urls "$(url $((i + 3)))" --initial-advertise-peer-urls "$(url $((i + 3)))" \
        --initial-cluster "m0=$(url 3),m1=$(url 4),m2=$(url 5)" </dev/null >>"$dir/m$i.log" 2>&1 &
    pids+=($!)
done
for i in 0 1 2; do
    for ((tries = 0; tries < 300; tries++)); do
        answers $((port + i)) && break
        kill -0 "${pids[i]}" 2>/dev/null || fail "Member $i ended by itself. See $dir/m$i.log"
        sleep 0.1
    done
    [ $tries -lt 300 ] || fail "Member $i does not answer. See $dir/m$i.log"
done

for i in 0 1 2; do echo "member $i: 127.0.0.1:$((port + i)), pid ${pids[i]}"; done
echo "etcd serves 127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2)). Ctrl-C ends it."
wait
fail "All members have ended."
