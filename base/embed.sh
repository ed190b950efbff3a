#!/bin/sh
# embed.sh NAME FILE...: prints a C header that holds the files, one after the other, as the string constant NAME, and
# their SHA-1 (by which Redis knows a script) as the macro NAME_sha1. Every byte is written as an octal escape, so no
# content needs special care.
set -eu
name=$1
shift
printf 'static const char %s[] =\n    ""\n' "$name"
cat "$@" | od -An -v -to1 | sed 's/ \([0-7]\{3\}\)/\\\1/g; s/.*/    "&"/'
echo '    ;'
printf '#define %s_sha1 "%s"\n' "$name" "$(cat "$@" | sha1sum | cut -c1-40)"
