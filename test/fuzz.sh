#!/bin/sh
# fuzz.sh SECONDS FUZZER...: runs each libFuzzer program MODULE_NAME from the corpus MODULE/test/corpus/NAME.
# What it finds on its way is kept beside it in build/, what it breaks on is named.
set -u
seconds=$1
shift
[ $# -gt 0 ] || { echo "nothing to fuzz"; exit 1; }
failed=0
for fuzzer in "$@"; do
    name=$(basename "$fuzzer")
    module=${name%%_*}
    for parent in lock/lib loadtest/; do
        [ -d "$module" ] || [ ! -d "$parent$module" ] || module=$parent$module
    done
    found=$fuzzer.found
    mkdir -p "$found"
    echo "== $name, $seconds s"
    "$fuzzer" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 -verbosity=0 -artifact_prefix="$fuzzer.broken-" \
        "$found" "$module/test/corpus/${name#*_}" || failed=1
done
exit $failed
