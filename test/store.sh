#!/bin/bash
# store.sh valkey|redis8 DIR: has another store in DIR/bin, by the names of Redis (redis-server and its tools), so that what
# starts a Redis starts it with DIR/bin first in its PATH: Valkey 8 of Debian 12's backports, or Redis 8 of Debian 13.
# Unpacks Debian's packages there, with all libraries, and installs nothing.
set -eu
case ${1:-} in '' | -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

case $1 in
valkey) suites="bookworm bookworm-backports" ours=valkey packages="valkey-server valkey-tools" ;;
redis8) suites=trixie ours=redis packages="redis-server redis-tools" ;;
*) echo "$0: \"$1\" is neither valkey nor redis8" >&2; exit 2 ;;
esac

mkdir -p "$2"
dir=$(cd "$2" && pwd)
rm -rf "${dir:?}"/{apt,root,bin,bin.new}
mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$dir/root" "$dir/bin.new"

# A package manager of its own, which takes nothing for installed.
repository=$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Origin: Debian" | head -n 1)
[ -n "$repository" ] || { echo "$0: no source of Debian's packages" >&2; exit 1; }
for suite in $suites; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $repository $suite main"
done >"$dir/apt/sources.list"
touch "$dir/apt/status"
own=(-o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::status="$dir/apt/status"
    -o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt" -o APT::Sandbox::User=root)
apt-get "${own[@]}" -qq update
# shellcheck disable=SC2086 # a list
apt-get "${own[@]}" -qq -y --no-install-recommends --download-only install $packages >/dev/null
for package in "$dir"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$dir/root"
done
rm -rf "$dir/apt"

# They run with the libraries that they were built for.
loader=$(find "$dir/root" -name 'ld-linux-*.so.*' -type f | head -n 1)
libraries=$(dirname "$(find "$dir/root" -name libc.so.6 | head -n 1)")
for tool in server cli check-aof check-rdb benchmark; do
    printf '#!/bin/sh\nexec "%s" --argv0 redis-%s --library-path "%s" "%s" "$@"\n' "$loader" "$tool" "$libraries" \
        "$dir/root/usr/bin/$ours-$tool" >"$dir/bin.new/redis-$tool"
    chmod +x "$dir/bin.new/redis-$tool"
done
"$dir/bin.new/redis-server" --version
mv "$dir/bin.new" "$dir/bin"
