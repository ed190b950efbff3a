#!/bin/bash
# reset.sh: removes what run.sh keeps in var/: the data of its Redis and its etcd, its logs, the admin token.
set -eu
case ${1:-} in -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

[ -d var ] || exit 0
exec 9>var/run.lock
flock -n 9 || { echo "It still runs, from this directory. End it first (Ctrl-C)." >&2; exit 1; }
rm -rf var/redis var/etcd var/*.log var/admin-token
echo "What make run had kept in var/ is removed: it begins anew."
