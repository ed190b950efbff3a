# shellcheck shell=bash
# stage.sh: to be sourced. Starts private servers for a measurement on free loopback ports, and ends them with the script.
build=${SECKILL_BUILD:-build}
export -n SECKILL_BUILD # seckilld warns about variables that it does not know
unset SECKILL_ADMIN_TOKEN_FILE
export SECKILL_ADMIN_TOKEN=stage-token
stage_dir=$(mktemp -d)
stage_pids=()
trap stage_close EXIT
trap 'exit 130' INT TERM

stage_close() {
    local pid
    for pid in "${stage_pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$stage_dir"
}

stage_fail() {
    printf '%s\n' "$*" >&2
    tail -n 5 "$stage_dir"/*.log >&2 2>/dev/null
    exit 1
}

# stage_need PROGRAM...
stage_need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null ||
            stage_fail "$program is missing: run make, and deploy/deps.sh run measure."
    done
}
stage_need redis-server redis-cli curl jq "$build/seckilld" "$build/seckill-load"

# A free port.
stage_port() {
    local port
    while port=$((20000 + RANDOM % 10000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}

# stage_wait COMMAND...: waits until it succeeds, for ten seconds, or until the process that was started last has ended.
stage_wait() {
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        "$@" >/dev/null 2>&1 && return
        kill -0 $! 2>/dev/null || stage_fail "the server ended before it answered: $*"
        sleep 0.05
    done
    stage_fail "gave up waiting for: $*"
}

# stage_redis FSYNC [SETTING...]: starts a Redis; sets redis_port and redis_pid.
stage_redis() {
    local fsync=$1
    shift
    redis_port=$(stage_port)
    mkdir -p "$stage_dir/redis-$redis_port"
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --dir "$stage_dir/redis-$redis_port" \
        --appendonly yes --appendfsync "$fsync" --auto-aof-rewrite-percentage 0 "$@" >"$stage_dir/redis-$redis_port.log" 2>&1 &
    redis_pid=$!
    stage_pids+=("$redis_pid")
    stage_wait redis-cli -p "$redis_port" ping
}

# stage_etcd: starts an etcd; sets etcd_port.
stage_etcd() {
    local peer
    stage_need etcd
    etcd_port=$(stage_port) peer=$(stage_port)
    etcd --data-dir "$stage_dir/etcd-$etcd_port" --listen-client-urls "http://127.0.0.1:$etcd_port" \
        --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls "http://127.0.0.1:$peer" \
        --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" \
        >"$stage_dir/etcd-$etcd_port.log" 2>&1 &
    stage_pids+=("$!")
    stage_wait curl -sf "http://127.0.0.1:$etcd_port/health"
}

# stage_seckilld FLAG...: starts a seckilld on that Redis; sets url and seckilld_pid.
stage_seckilld() {
    local port
    port=$(stage_port)
    "$build/seckilld" --listen "127.0.0.1:$port" --redis "redis://127.0.0.1:$redis_port" "$@" >"$stage_dir/seckilld-$port.log" 2>&1 &
    seckilld_pid=$!
    stage_pids+=("$seckilld_pid")
    url=http://127.0.0.1:$port
    stage_wait curl -sf "$url/readyz"
}

# stage_end PID: ends one server now.
stage_end() {
    kill -TERM "$1"
    wait "$1" 2>/dev/null
}

# stage_item NAME TERMS: puts an item on sale.
stage_item() {
    curl -sf -o /dev/null -X PUT "$url/v1/items/$1" -H "Authorization: Bearer $SECKILL_ADMIN_TOKEN" -d "$2" ||
        stage_fail "the item $1 could not be created"
}

# stage_items NAME COUNT TERMS: puts NAME-0 to NAME-(COUNT-1) on sale.
stage_items() {
    local i
    for ((i = 0; i < $2; i++)); do
        ((i == 0)) || echo next
        printf 'fail\nurl = "%s/v1/items/%s-%d"\nrequest = "PUT"\ndata = "%s"\nheader = "Authorization: Bearer %s"\noutput = "/dev/null"\n' \
            "$url" "$1" "$i" "${3//\"/\\\"}" "$SECKILL_ADMIN_TOKEN"
    done | curl -sfZ --no-progress-meter --parallel-max 64 -K - || stage_fail "the items could not be created"
}

# stage_purchases: how many the service has answered.
stage_purchases() { curl -s "$url/metrics" | awk '/^seckill_purchases_total/ { n += $2 } END { print n }'; }

# cpu_us PID: CPU time of a process, in microseconds.
cpu_us() {
    awk -v hz="$(getconf CLK_TCK)" '{ printf "%d", ($14 + $15) * 1000000 / hz }' "/proc/$1/stat"
}

stage_machine() {
    printf '%s, %s cores, %s, Redis %s\n' "$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)" "$(nproc)" "$(uname -sr)" \
        "$(redis-server --version | sed 's/.*v=\([^ ]*\).*/\1/')"
}
