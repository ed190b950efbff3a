# shellcheck shell=bash
# For other scripts to source, which set dir (data and logs) and deploy (where this file is): servers on loopback
# that are ended with the script, by process id.
# shellcheck disable=SC2317 # end_all is only called by a trap
umask 077
pids=()
: "${dir:?}" "${deploy:?}"

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

# want_free PORT COUNT: fails if one of so many ports is in use.
want_free() {
    local port
    for ((port = $1; port < $1 + $2; port++)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && fail "Port $port is taken by something else."
    done
    return 0
}

# One after the other: a leader that ends waits for a successor, and for long if the others end meanwhile. The last
# that was started ends first: a master waits for its replicas, and who watches it would replace it. Each is told
# until it has ended: a Redis that writes its first AOF, as a replica does after each full copy, refuses to.
end_all() {
    local i
    trap - EXIT
    trap '' INT TERM HUP
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        while kill -TERM "${pids[i]}" 2>/dev/null; do sleep 0.05; done
    done
}
trap end_all EXIT
trap 'exit 0' INT TERM HUP

# start LOG PROGRAM...: in a session of its own, out of reach of the terminal's Ctrl-C. Its pid is the last of
# `pids`.
start() {
    local log=$1
    shift
    setsid setpriv --pdeathsig TERM "$@" </dev/null >>"$log" 2>&1 &
    pids+=($!)
}

# wait_for WHAT COMMAND...: until the command succeeds, for a minute, as long as all that was started lives.
wait_for() {
    local what=$1 tries pid
    shift
    for ((tries = 0; tries < 600; tries++)); do
        "$@" && return
        for pid in "${pids[@]}"; do
            kill -0 "$pid" 2>/dev/null || fail "A server ended by itself. Its log is in $dir."
        done
        sleep 0.1
    done
    fail "$what does not answer. Its log is in $dir."
}

# redis_start DIR PORT [SETTING...]: a Redis with deploy/redis.conf, and these settings when it starts for the first
# time. What a Sentinel or the cluster changes later is kept.
redis_start() {
    local home=$1 port=$2
    shift 2
    mkdir -p "$home" || exit 1
    [ -e "$home/redis.conf" ] ||
        printf '%s\n' "include \"$deploy/redis.conf\"" "port $port" "dir \"$home\"" "$@" >"$home/redis.conf"
    "$deploy/mend-aof.sh" "$home" >>"$home/log" 2>&1 || fail "The data in $home cannot be read. See $home/log"
    start "$home/log" redis-server "$home/redis.conf"
    wait_for "The Redis on port $port" redis_answers "$port"
}

redis_answers() { [ "$(redis-cli -p "$1" PING 2>/dev/null)" = PONG ]; }

# redis_says PORT TEXT COMMAND...: whether the reply has the text.
redis_says() {
    local port=$1 text=$2
    shift 2
    redis-cli -p "$port" "$@" 2>/dev/null | grep -q "$text"
}
