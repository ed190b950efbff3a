#!/bin/bash
# deps.sh SET...: installs the Debian packages of the sets (build, check, fuzz) that are missing; silent when
# none is. Elsewhere it says what is needed, and fails if something is missing.
set -eu

build=(build-essential pkg-config libmicrohttpd-dev libhiredis-dev libjansson-dev libuv1-dev libsodium-dev
    libgrpc-dev libprotobuf-c-dev protobuf-c-compiler redis-server redis-tools etcd-server etcd-client iproute2
    libzookeeper-mt-dev zookeeper openssl curl jq)
check=(clang-format clang-tidy cppcheck shellcheck)
fuzz=(clang libclang-rt-dev)

wanted=()
for set in "$@"; do
    case $set in
    build) wanted+=("${build[@]}") ;;
    check) wanted+=("${check[@]}") ;;
    fuzz) wanted+=("${fuzz[@]}") ;;
    *) echo "$0: no set $set" >&2; exit 2 ;;
    esac
done

missing=()

# Not Debian: no package manager to ask, so the tools and libraries themselves are looked for.
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    for tool in gcc pkg-config protoc-c redis-server redis-cli etcd etcdctl openssl ip java curl; do
        command -v $tool >/dev/null || missing+=("$tool")
    done
    for library in libmicrohttpd hiredis jansson libuv libsodium grpc libprotobuf-c; do
        pkg-config --exists $library 2>/dev/null || missing+=("$library")
    done
    # Neither has a file for pkg-config.
    echo '#include <zookeeper/zookeeper.h>' | gcc -DTHREADED -E - >/dev/null 2>&1 || missing+=(libzookeeper_mt)
    [ -e /usr/share/java/zookeeper.jar ] || missing+=(/usr/share/java/zookeeper.jar)
    [ ${#missing[@]} -gt 0 ] || exit 0
    echo "missing: ${missing[*]}"
    echo "Please install what these Debian packages hold, then try again:"
    echo "    ${wanted[*]}"
    exit 1
fi

for package in "${wanted[@]}"; do
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
    esac
done
