#!/usr/bin/env bash
# The binary copy of a data file: where it lies, when it is used, when it is made again.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth P --rows 9000 --features 300 --labels 40 --row-features 12
check "the source is large enough to have a cache" [ "$(stat -c %s P_train.txt)" -gt 1048576 ]
quick=(--hidden 8 --epochs 1)
stamp() { stat -c '%y %i %s' "$1"; }
caches() { find . -name '*cache*' -type f | sort | paste -sd' '; }

ok "first run" train P_train.txt -o m "${quick[@]}"
check "a cache lies beside the data" [ "$(caches)" = ./P_train.txt.wispcache ]
before=$(stamp P_train.txt.wispcache)
ok "second run" train P_train.txt -o m2 "${quick[@]}"
check "it is used: not written again" [ "$(stamp P_train.txt.wispcache)" = "$before" ]
check "it is used: without a word" not grep -q 'cache' err
same "it holds the same rows" m m2
ok "eval" eval m P_train.txt
check "eval uses the cache of train" [ "$(stamp P_train.txt.wispcache)" = "$before" ]

damage() { # NAME: after a change to the cache
    ok "$1" train P_train.txt -o m2 "${quick[@]}"
    check "$1: it is told" grep -qE 'P_train.txt.wispcache: damaged .*P_train.txt again' err
    same "$1: the rows are the source's" m m2
    ok "$1: run again" train P_train.txt -o m2 "${quick[@]}"
    check "$1: the new one is whole" not grep -q 'wispcache' err
}
printf '\377' | dd of=P_train.txt.wispcache bs=1 seek=3000 conv=notrunc 2>/dev/null
damage "a flipped byte"
truncate -s -100 P_train.txt.wispcache
damage "a cut cache"
truncate -s 0 P_train.txt.wispcache
damage "an empty cache"
echo hello >P_train.txt.wispcache
damage "something else in its place"

touch -d '2001-01-01' P_train.txt
ok "a changed source" train P_train.txt -o m2 "${quick[@]}"
check "a changed source is told" grep -qE 'P_train.txt.wispcache: stale' err
refuse "other options read the source again" 3 "P_train.txt:[0-9]+: .*start at 1" train P_train.txt -o m2 --index-base 1
check "other options are told" grep -qE 'P_train.txt.wispcache: stale' err

rm -f ./*.wispcache
ok "--cache -" train P_train.txt -o m2 "${quick[@]}" --cache -
check "--cache - writes nothing" [ -z "$(caches)" ]
same "--cache -: the same rows" m m2

mkdir locked
cp P_train.txt locked/
chmod 555 locked
limited=()
[ "$(id -u)" = 0 ] && limited=(setpriv --bounding-set=-dac_override) # root writes everywhere, unless it gives that up
if "${limited[@]}" true 2>/dev/null && ! "${limited[@]}" touch locked/x 2>/dev/null; then
    go() {
        "${limited[@]}" "$wisp" train locked/P_train.txt -o m2 "${quick[@]}" "$@" >out 2>err
        rc=$?
    }
    go --cache folder/of/caches
    check "a locked folder" [ $rc = 0 ]
    check "its cache lies in --cache" [ "$(find folder -name 'P_train.txt-*.wispcache' | wc -l)" = 1 ]
    check "and nowhere else" [ "$(caches | wc -w)" = 1 ]
    there=$(find folder -name '*.wispcache')
    before=$(stamp "$there")
    go --cache folder/of/caches
    check "it is used there" [ "$(stamp "$there")" = "$before" ]
    same "the same rows from there" m m2
    go
    check "without --cache: under the user's own" [ "$(find home/.cache/wisp -name 'P_train.txt-*.wispcache' | wc -l)" = 1 ]
    XDG_CACHE_HOME=$work/xdg go
    check "or under XDG_CACHE_HOME" [ "$(find xdg/wisp -name 'P_train.txt-*.wispcache' | wc -l)" = 1 ]
    : >file
    go --cache file/caches
    check "no place at all: it runs from memory" [ $rc = 0 ]
    check "no place at all: it is told" grep -q 'kept in memory' err
    same "no place at all: the same rows" m m2
else
    skip "a locked folder" "no right here can be given up (setpriv)"
fi
check "no temporaries are left" [ -z "$(find . -name '*.tmp*')" ]
end
