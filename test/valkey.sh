#!/bin/bash
# valkey.sh DIR: has Valkey in DIR/bin, by the names of Redis (redis-server and its tools), so that what starts a Redis
# starts a Valkey with DIR/bin first in its PATH. Unpacks Debian's packages there, or those of Debian's backports, and
# installs nothing. They need the libraries of Debian's redis-tools.
set -eu
case ${1:-} in '' | -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac

mkdir -p "$1"
dir=$(cd "$1" && pwd)
rm -rf "${dir:?}"/{apt,root,bin,bin.new}
mkdir -p "$dir/apt/lists/partial" "$dir/apt/archives/partial" "$dir/root"

# A package manager of its own, with one source more than this machine's.
# shellcheck source=/dev/null
. /etc/os-release
repository=$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" "Codename: $VERSION_CODENAME" | head -n 1)
[ -n "$repository" ] || { echo "$0: no source of packages for $VERSION_CODENAME" >&2; exit 1; }
for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-backports"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $repository $suite main"
done >"$dir/apt/sources.list"
own=(-o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$dir/apt/lists" -o Dir::Cache="$dir/apt" -o APT::Sandbox::User=root)
apt-get "${own[@]}" -qq update
(cd "$dir/apt" && apt-get "${own[@]}" -qq download valkey-server valkey-tools)
for package in "$dir"/apt/*.deb; do
    dpkg-deb -x "$package" "$dir/root"
done
rm -rf "$dir/apt"

mkdir "$dir/bin.new"
for tool in server cli check-aof check-rdb benchmark; do
    ln -s "../root/usr/bin/valkey-$tool" "$dir/bin.new/redis-$tool"
done
"$dir/bin.new/redis-server" --version
mv "$dir/bin.new" "$dir/bin"
