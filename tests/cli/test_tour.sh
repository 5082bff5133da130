#!/usr/bin/env bash
# docs/examples/tour.c: the example of the C interface runs and tells the truth.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

if [ ! -x "$build/tour" ]; then
    bad "tour" "$build/tour was not built: 'make test' builds it"
    end
fi
"$build/tour" >out 2>err
rc=$?
check "it succeeds" [ $rc = 0 ]
check "it says nothing on stderr" [ ! -s err ]
check "each row gets its own label" [ "$(grep -cE '^row ([0-3])    place 1  label \1 ' out)" = 4 ]
check "and is sure of it" [ "$(grep -cE '^row ([0-3])    place 1  label \1  probability (0\.9|1\.0)' out)" = 4 ]
check "it reports its quality" grep -qE '^quality  P@1 [0-9.]+ %' out
check "its model file is gone" [ -z "$(find /tmp -maxdepth 1 -name 'wisp-tour-*' -newer home 2>/dev/null)" ]
end
