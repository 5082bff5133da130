#!/usr/bin/env bash
# A model that is too large for one rank: 23 million weights with Adam, where a process may have 150 MB.  Four ranks train it,
# each within what the plan says.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"
need_mpi
if ! command -v prlimit >/dev/null; then
    skip "a model too large for one rank" "there is no prlimit"
    end
fi
ok "rows" synth wide --rows 1500 --features 80000 --labels 100000 --row-features 30 --row-labels 3
how=(train wide_train.txt -o m --hidden 128 --epochs 1 --sampling features+random --precision fp32 --index no --threads 1
    --optimizer adam --moments fp32 --memory 1M)
prlimit --data=150000000 "$wisp" "${how[@]}" >out 2>err </dev/null
rc=$?
check "alone: out of memory, exit code 6" [ $rc = 6 ]
check "alone: says so" grep -q '^wisp: out of memory: ' err
mpi -np 4 prlimit --data=150000000 "$wisp" "${how[@]}" --json
check "four ranks" [ $rc = 0 ]
cp err said
plan=$(sed -nE 's/^memory +([0-9.]+) MiB needed.*/\1/p' said)
judge "four ranks: the plan, $plan MiB, is less than half of one rank's" "$plan < 12 * d['parameters'] / 2 / 1048576"
# besides the plan a process has its code, MPI's memory and 1 MiB of data
judge "four ranks: the largest is within the plan" "d['peak_bytes'] < 1048576 * ($plan + 48)"
ok "eval by one process" eval m wide_test.txt
end
