#!/bin/bash
# deploy.sh BUILD: checks the files of deploy/ that other programs read, each by its own program, without a network.
# shellcheck disable=SC2317 # unknown_metrics, verify_unit and replicas_in_compose are only called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
build=$(realpath "${1:?usage: deploy.sh BUILD}")
cd "$(dirname "$0")/../deploy" || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0

# check NAME COMMAND...: shows what it said if it fails.
check() {
    local name=$1
    shift
    "$@" >"$dir/said" 2>&1 && return
    printf 'deploy/%s: %s\n' "$name" "$*"
    cat "$dir/said"
    failed=1
}

# The queries of the dashboard, as rules.
dashboard_rules() {
    jq -r '"groups: [{name: dashboard, rules: [", (.. | .expr? // empty |
        gsub("\\$__rate_interval"; "1m") | "{record: x, expr: \(@json)},"), "]}]"' prometheus/dashboard.json
}

# Metrics that the rules or the dashboard name, and the service does not have.
unknown_metrics() {
    local name unknown=0
    while read -r name; do
        grep -q "\"${name%_bucket}\"" ../service/metrics.c || { echo "no metric $name"; unknown=1; }
    done < <(grep -oh 'seckill_[a-z_]*' prometheus/rules.yaml prometheus/dashboard.json | sort -u)
    return "$unknown"
}

# A setting that systemd does not know is a warning to it.
verify_unit() {
    systemd-analyze verify --man=no "$1" >"$dir/verified" 2>&1 && [ ! -s "$dir/verified" ] && return
    cat "$dir/verified"
    return 1
}

replicas_in_compose() {
    [ "$(grep -c 'environment: [&*]replica-environment' compose.yaml)" = "$1" ]
}

check haproxy.cfg haproxy -c -f haproxy.cfg
check compose.yaml env SECKILL_ADMIN_TOKEN=a REDIS_PASSWORD=b docker-compose -f compose.yaml config -q
# With two replicas a master and --replicas 1 the sale goes on whichever server dies. The scripts wait for what they say.
check compose.yaml replicas_in_compose 2
check sentinel.sh grep -q 'slaves=2,' sentinel.sh
check cluster.sh grep -q -e '--cluster-replicas 2 ' cluster.sh
check kubernetes node ../test/npm/kubernetes.mjs kubernetes
check prometheus/rules.yaml promtool check rules prometheus/rules.yaml
check prometheus/rules.yaml promtool test rules prometheus/rules_test.yaml
dashboard_rules >"$dir/dashboard.yaml"
check prometheus/dashboard.json promtool check rules "$dir/dashboard.yaml"
check prometheus unknown_metrics
sed "s|@BINDIR@|$build|; s|@SYSCONFDIR@|$PWD|" seckilld.service >"$dir/seckilld.service"
check seckilld.service verify_unit "$dir/seckilld.service"
check seckilld.service systemd-analyze security --offline=yes --threshold=20 "$dir/seckilld.service"
check '*.yaml' yamllint --strict -d '{extends: relaxed, rules: {line-length: {max: 150}}}' .
exit $failed
