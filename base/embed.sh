#!/bin/sh
# embed.sh FILE NAME: prints a C header that holds FILE as the string constant NAME, and its SHA-1 (by which Redis
# knows a script) as the macro NAME_sha1. Every byte is written as an octal escape, so no content needs special care.
set -eu
printf 'static const char %s[] =\n    ""\n' "$2"
od -An -v -to1 "$1" | sed 's/ \([0-7]\{3\}\)/\\\1/g; s/.*/    "&"/'
echo '    ;'
printf '#define %s_sha1 "%s"\n' "$2" "$(sha1sum < "$1" | cut -c1-40)"
