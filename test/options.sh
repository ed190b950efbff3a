#!/bin/sh
# options.sh PROGRAM DOCUMENT: fails unless the document names every option that PROGRAM --help does.
set -eu
options=$("$1" --help | grep -oE -e '--[a-z][a-z-]*' | sort -u)
[ -n "$options" ] || { echo "$1 --help names no option"; exit 1; }
status=0
for option in $options; do
    grep -qE -e "$option([^a-z-]|\$)" "$2" || { echo "$2 does not mention $option of $1"; status=1; }
done
exit $status
