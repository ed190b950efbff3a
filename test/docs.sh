#!/bin/bash
# docs.sh DOCUMENT...: runs every command of these documents as printed, in their order, on a copy of the tree, in
# namespaces of its own: ports, /etc and /usr/local are private, and all processes end with the script. What takes long
# does less (see run).
#
# Commands are the lines of blocks marked sh, and `curl ...` in the text. A block marked "LANGUAGE PATH" is a file that
# the reader is told to write. An answer to curl must be 2xx, unless the row names another status, as in "(409 if".
# Of `make X` within the text it is checked that there is such a target.
# shellcheck disable=SC2016,SC2317 # for other shells; called by name
set -u
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 1

if [ $$ -ne 1 ]; then # not in its namespaces yet
    SECKILL_DOCS_WORK=$(mktemp -d "${TMPDIR:-/tmp}/seckill-docs-XXXXXX") || exit 1
    export SECKILL_DOCS_WORK
    trap 'rm -rf "$SECKILL_DOCS_WORK"' EXIT
    root=()
    [ "$(id -u)" -eq 0 ] || root=(--map-root-user)
    unshare "${root[@]}" --mount --net --pid --fork --kill-child --mount-proc "$0" "$@"
    exit
fi
work=$SECKILL_DOCS_WORK real=$PWD

fail() {
    echo "$1" >&2
    tail -n 20 "$work"/log/* "$work"/tree/var/*.log >&2 2>/dev/null
    exit 1
}

# ---- the copy, and what stands in for the rest of a machine ----

ip link set lo up || exit 1
mkdir -p "$work"/{tree,bin,etc,local,home,log}
cp -a /etc/. "$work/etc" 2>/dev/null
{ mount --bind "$work/etc" /etc && mount --bind "$work/local" /usr/local; } || fail "no mounts of its own"
[ ! -d /var/cache/ldconfig ] || mount -t tmpfs none /var/cache/ldconfig
tar -C "$real" --exclude=./build --exclude=./var --exclude=./.git -cf - . | tar -C "$work/tree" -xf -
cd "$work/tree" || exit 1
ln -s "$real/build" build
export HOME=$work/home TMPDIR=$work/log PATH=$work/bin:$PATH MAKEFLAGS=
unset SECKILL_DOCS_WORK SECKILL_BUILD CI XDG_RUNTIME_DIR
printf '%s\n' silent show-error 'write-out = "%{stderr}%{http_code}"' >"$HOME/.curlrc"
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
# What systemd does with the unit, as far as that goes without systemd.
cat >"$work/bin/systemctl" <<'EOF'
#!/bin/bash
unit=/usr/local/lib/systemd/system/seckilld.service
of_unit() { sed -n "s/^$1=-\{0,1\}//p" $unit; }
case "$*" in
daemon-reload) [ -e $unit ] ;;
'enable --now seckilld')
    set -a
    . "$(of_unit EnvironmentFile)" || exit 1
    read -r -a start < <(of_unit ExecStart)
    "${start[@]}" 2>"$TMPDIR/seckilld.log" &
    ;;
*) echo "systemctl $*: not known here" >&2 && exit 1 ;;
esac
EOF
chmod +x "$work"/bin/*
# The programs that the documents on libraries compile: the examples at the top of the headers.
example() { sed -n '/^ \*     #include/,/^ \*     }$/s/^ \* \{0,5\}//p' "$1" >example.c; }

# ---- commands ----

# commands DOCUMENT: lines of KIND, a tab, the place, a tab, and the text. Kinds: sh, curl (in a line of text), make (a
# target named in the text), unmarked (a command in a block that is not marked sh), or the path of a file to be written.
commands() {
    awk -v OFS='\t' '
        /^```/ { kind = kind ? "" : $2 ? $2 : $1 == "```sh" ? "sh" : "-"; next }
        kind && kind != "-" { print kind, FILENAME ":" FNR, $0 }
        kind == "-" && /^(curl|make|sudo|cc|build\/)/ { print "unmarked", FILENAME ":" FNR, $0 }
        kind { next }
        match($0, /`curl [^`]*`/) { print "curl", FILENAME ":" FNR, $0 }
        { while (match($0, /`make [a-z]+[ `]/)) {
            print "make", FILENAME ":" FNR, substr($0, RSTART + 6, RLENGTH - 7); $0 = substr($0, RSTART + RLENGTH) } }
    ' "$1"
}

answers() { [ "$(command curl -o /dev/null -w '%{http_code}' "$1" 2>/dev/null)" = 200 ]; }

# wait_answers [PORT/PATH]
wait_answers() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        answers "http://127.0.0.1:${1:-8080/readyz}" && return
        sleep 0.1
    done
    return 1
}

# wait_said FILE TEXT
wait_said() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        grep -q "$2" "$1" && return
        sleep 0.1
    done
    return 1
}

is_target() { grep -q "^$1:" Makefile; }

# ask CURL STATUS
ask() { eval "$1" >"$work/log/said" 2>"$work/log/status" && [[ $(cat "$work/log/status") =~ ^$2$ ]]; }

# run COMMAND STATUS: of curl the answer must have that status.
run() {
    case $1 in
    make\ run*)
        bash -c "$1" >"$work/log/make-run" 2>&1 &
        wait_said "$work/log/make-run" 'On sale'
        ;;
    make\ demo*)
        bash -c "$1" >"$work/log/make-demo" 2>&1 &
        wait_answers 8090/
        ;;
    # Those that run until Ctrl-C.
    deploy/sentinel.sh* | deploy/cluster.sh*)
        bash -c "$1" >"$work/log/$(basename "${1%% *}")" 2>&1 &
        wait_said "$work/log/$(basename "${1%% *}")" 'Ctrl-C ends them'
        ;;
    *build/seckilld*--listen\ *)
        bash -c "$1" >"$work/log/seckilld" 2>&1 &
        address=${1##*listen } # where it serves everything
        address=${address%% *}
        wait_answers "${address##*:}/readyz"
        ;;
    haproxy*)
        bash -c "$1" >"$work/log/haproxy" 2>&1 &
        wait_answers 8000/openapi.json
        ;;
    # It runs this, or takes long.
    make\ test* | make\ check* | make\ fuzz* | make\ torture*) is_target "$(awk '{ print $2 }' <<<"$1")" ;;
    # All slots but a few stay where they are: each takes 10 ms to move.
    *--cluster\ rebalance*)
        eval "$1 --cluster-weight $(redis-cli -p 7120 cluster myid)=0.02" >"$work/log/said" 2>&1 &&
            redis-cli -p 7101 cluster nodes | grep -q ':7120@.* connected [0-9]'
        ;;
    build/seckill-load*--duration*) eval "${1/--duration 10s/--duration 1s}" >"$work/log/said" 2>&1 ;;
    curl*/readyz) # a failover that was asked for begins a moment later: the first answer may be from before
        local tries
        for ((tries = 0; tries < 600; tries++)); do
            ask "$1" "$2" && return
            sleep 0.1
        done
        return 1
        ;;
    curl*) ask "$1" "$2" ;;
    build/lock-bench*) # on a busy machine it may tell that a call was not answered in time
        eval "$1" >"$work/log/said" 2>&1 || { [ $? -eq 3 ] && grep -q '^FAILED.* \(no answer within\|too late\)' "$work/log/said"; }
        ;;
    *) eval "$1" >"$work/log/said" 2>&1 ;;
    esac
}

count=0
for document in "$@"; do
    case $document in
    *liblock.md) example lock/lock.h ;;
    *libetcd.md) example lock/libetcd/etcd.h ;;
    *sell.md | *grow.md | *shop.md) redis-server deploy/redis.conf --dir "$work/log" --daemonize yes >/dev/null ;;
    esac
    while IFS=$'\t' read -r kind place text <&3; do
        echo "$place: $text"
        case $kind in
        sh) run "$text" '2..' ;;
        curl)
            status=$(sed -n 's/.*(\([45][0-9][0-9]\) .*/\1/p' <<<"$text")
            text=$(grep -o '`curl [^`]*`' <<<"$text") && run "${text:1:-1}" "${status:-2..}"
            ;;
        unmarked) false ;;
        make) is_target "$text" ;;
        *) printf '%s\n' "$text" >>"$kind" ;;
        esac || fail "$place: this does not do what it says: $text"
        count=$((count + 1))
    done 3< <(commands "$document")
    [ $count -gt 0 ] || fail "$document: there is no command in it"
done
echo "$count commands"
