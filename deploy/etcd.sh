#!/bin/bash
# etcd.sh DIR [PORT]: three etcd members on loopback, until Ctrl-C: to try things on. Clients reach them on PORT
# (2479) and the next two, they reach each other on the three after. Data and logs are in DIR, and are found
# there the next time.
# shellcheck disable=SC2317 # answers is only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

dir=${1:?usage: etcd.sh DIR [PORT]}
port=${2:-2479}
deploy=$(dirname "$0")
# shellcheck source=deploy/servers.sh
. "$deploy/servers.sh"

answers() { [[ $(curl -s -m 5 "http://127.0.0.1:$1/health") == '{"health":"true"'* ]]; } # since 3.5 more follows

url() { printf 'http://127.0.0.1:%d' $((port + $1)); }

want_free "$port" 6
for i in 0 1 2; do
    mkdir -p "$dir/m$i" || exit 1
    start "$dir/m$i.log" etcd --name "m$i" --data-dir "$dir/m$i" --logger zap --log-outputs stderr \
        --listen-client-urls "$(url $i)" --advertise-client-urls "$(url $i)" \
        --listen-peer-urls "$(url $((i + 3)))" --initial-advertise-peer-urls "$(url $((i + 3)))" \
        --initial-cluster "m0=$(url 3),m1=$(url 4),m2=$(url 5)"
done
for i in 0 1 2; do wait_for "Member $i" answers $((port + i)); done

for i in 0 1 2; do echo "member $i: 127.0.0.1:$((port + i)), pid ${pids[i]}"; done
echo "etcd serves 127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2)). Ctrl-C ends it."
wait
fail "All members have ended."
