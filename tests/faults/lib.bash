# What the scripts of tests/faults share: lib.bash of tests/cli, and inject.so.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.bash"
export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 # inject.so comes first; it has no malloc then

# inject "KIND N MODE HOW" ARGS...: the command with a call that fails; stdout to 'out', stderr to 'err', exit code to $rc.
# The braces keep bash from announcing a kill.
inject() {
    { timeout -k 5 100 env INJECT="$1" INJECT_HIT=hit LD_PRELOAD="$build/tests/faults/inject.so" "$wisp" "${@:2}" >out 2>err </dev/null; } 2>/dev/null
    rc=$?
}
