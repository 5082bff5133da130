#!/usr/bin/env bash
# Several ranks by mpirun: collectives (tests/unit/test_ranks.c, which needs wisp-mpi.so beside it).
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"
need_mpi

cp "$build/tests/unit/test_ranks" "$build/wisp-mpi.so" .
for np in 1 2 3; do
    mpi -np $np ./test_ranks
    check "collectives, $np ranks" [ $rc = 0 ]
    check "collectives, $np ranks: all of them ran" [ "$(grep -c ' passed, 0 failed' out)" = $np ]
done
mpi -np 2 ./test_ranks large
check "collectives of more than 64 MiB" [ $rc = 0 ]
mpi -np 3 ./test_ranks stall
check "a rank that does not come: the others say so" [ "$(grep -c ' passed, 0 failed' out)" = 2 ]
end
