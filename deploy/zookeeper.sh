#!/bin/bash
# zookeeper.sh DIR [PORT]: an ensemble of three ZooKeepers on loopback, until Ctrl-C, with their data in DIR.
# Clients connect to PORT (2181), PORT+1, PORT+2; the next six ports are for among themselves.
# zookeeper.sh one DIR PORT [ID MEMBER...]: a single one, or member ID of an ensemble of MEMBERs, which are
# PEER_PORT:ELECTION_PORT, the first of ID 1. ZOOKEEPER_TICK_MS: its tick (2000), and
# ZOOKEEPER_SESSION_MAX_MS: the longest session (60000); the shortest has two ticks.
set -eu
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

run_one() {
    local dir=$1 port=$2 id=${3:-} tick=${ZOOKEEPER_TICK_MS:-2000} member n=0
    shift $(($# < 3 ? $# : 3))
    mkdir -p "$dir/data"
    {
        printf '%s\n' "tickTime=$tick" initLimit=50 syncLimit=25 "dataDir=$dir/data" \
            "maxSessionTimeout=${ZOOKEEPER_SESSION_MAX_MS:-60000}" maxClientCnxns=0 \
            "clientPort=$port" clientPortAddress=127.0.0.1 admin.enableServer=false \
            '4lw.commands.whitelist=*'
        for member in "$@"; do
            n=$((n + 1))
            echo "server.$n=127.0.0.1:$member"
        done
    } >"$dir/zoo.cfg"
    [ -z "$id" ] || echo "$id" >"$dir/data/myid"
    # Quick to start, and small. Empty containers go within seconds, not minutes.
    exec java -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto \
        -Dznode.container.checkIntervalMs="${ZOOKEEPER_CONTAINER_MS:-5000}" \
        -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
        -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg"
}

if [ "${1:-}" = one ]; then
    shift
    run_one "$@"
fi
dir=$(realpath -m "${1:?which directory?}") port=${2:-2181}
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
trap 'exit 130' INT TERM
for id in 1 2 3; do
    "$0" one "$dir/$id" $((port + id - 1)) $id $((port + 3)):$((port + 4)) $((port + 5)):$((port + 6)) \
        $((port + 7)):$((port + 8)) &
done
echo "zookeeper://127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))"
wait
