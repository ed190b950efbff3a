#!/bin/bash
# deps.sh SET...: installs the Debian packages of the sets that are missing; silent when none is. Elsewhere it says
# what is needed, and fails if something is missing. The sets: build (to compile), run (what make run starts),
# measure (make bench, oversell and baskets), lab (make lab and demo), test (what only tests start: Java for ZooKeeper,
# Node.js and a browser among it), check, fuzz.
set -eu
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

declare -A packages=(
    [build]="build-essential pkg-config libmicrohttpd-dev libhiredis-dev libjansson-dev libjwt-dev libuv1-dev libsodium-dev
        libgrpc-dev libprotobuf-c-dev protobuf-c-compiler libzookeeper-mt-dev"
    [run]="redis-server redis-tools etcd-server curl"
    [measure]="jq"
    [lab]="zookeeper"
    [test]="etcd-client iproute2 haproxy zookeeper openssl npm python3 chromium chromium-driver"
    [check]="clang-format clang-tidy cppcheck shellcheck python3 haproxy prometheus docker-compose yamllint"
    [fuzz]="clang libclang-rt-dev"
)
# What is looked for where there is no package manager to ask.
declare -A programs=(
    [build]="gcc pkg-config protoc-c"
    [run]="redis-server redis-cli redis-check-aof etcd curl"
    [measure]="jq"
    [lab]="java"
    [test]="etcdctl ip haproxy java openssl node npm python3 chromium chromedriver"
    [check]="clang-format clang-tidy cppcheck shellcheck python3 haproxy promtool docker-compose yamllint systemd-analyze"
    [fuzz]="clang"
)

wanted=() missing=()
for set in "$@"; do
    [ -n "${packages[$set]:-}" ] || { echo "$0: no set $set; there are ${!packages[*]}" >&2; exit 2; }
    read -r -d '' -a more <<<"${packages[$set]}" || true
    wanted+=("${more[@]}")
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    for set in "$@"; do
        for program in ${programs[$set]}; do
            command -v "$program" >/dev/null || missing+=("$program")
        done
        case $set in
        build)
            for library in libmicrohttpd hiredis jansson libjwt libuv libsodium grpc libprotobuf-c; do
                pkg-config --exists $library 2>/dev/null || missing+=("$library")
            done
            # It has no file for pkg-config.
            echo '#include <zookeeper/zookeeper.h>' | gcc -DTHREADED -E - >/dev/null 2>&1 ||
                missing+=(libzookeeper_mt)
            ;;
        lab | test) [ -e /usr/share/java/zookeeper.jar ] || missing+=(/usr/share/java/zookeeper.jar) ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || exit 0
    echo "missing: ${missing[*]}"
    echo "Please install what these Debian packages hold, then try again:"
    echo "    ${wanted[*]}"
    exit 1
fi

for package in "${wanted[@]}"; do
    # Node.js that is not Debian's brings its own, and cannot be installed beside Debian's.
    [ "$package" != npm ] || ! command -v npm >/dev/null || continue
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "installing: ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Only root can: apt-get install ${missing[*]}" >&2; exit 1; }
    exec sudo "$0" "$@"
fi

# Debian starts a Redis and an etcd of its own on installation, now and at each boot. Who runs this did not ask
# for them.
policy=/usr/sbin/policy-rc.d
ours=
trap '[ -z "$ours" ] || rm -f $policy' EXIT
trap 'exit 1' INT TERM
if [ ! -e $policy ]; then
    ours=1
    printf '#!/bin/bash\nexit 101\n' >$policy
    chmod 755 $policy
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q || echo "apt-get update failed; trying with the lists there are" >&2
apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
command -v systemctl >/dev/null || exit 0
for package in "${missing[@]}"; do
    case $package in
    redis-server) systemctl disable --quiet redis-server.service || true ;;
    etcd-server) systemctl disable --quiet etcd.service || true ;;
    haproxy | prometheus) systemctl disable --quiet "$package.service" || true ;;
    esac
done
