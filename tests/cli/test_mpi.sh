#!/usr/bin/env bash
# wisp challenge as several processes: the same categories for any number of ranks, one voice, and an error of one rank
# ends all with one message and one exit code.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"

# folder DIR ROWS ones|other: a network of 32 neurons x 5 layers, each output there twice, and ROWS inputs, of ones or of
# other numbers.  Every third input has one value alone and dies.
folder() {
    /usr/bin/python3 - "$@" <<'PY'
import os, random, sys
where, rows, ones = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "ones"
n, r = 32, random.Random(7)
os.makedirs(f"{where}/neuron{n}")
for l in range(1, 6):
    with open(f"{where}/neuron{n}/n{n}-l{l}.tsv", "w") as f:
        for out in range(0, n, 2):
            for i in sorted(r.sample(range(n), 6)):
                w = r.choice((0.25, 0.5))
                f.write(f"{i + 1}\t{out + 1}\t{w}\n{i + 1}\t{out + 2}\t{w}\n")
with open(f"{where}/sparse-images-{n}.tsv", "w") as f:
    for row in range(rows):
        for i in [row % n] if row % 3 == 1 else sorted(r.sample(range(n), 20)):
            f.write(f"{row + 1}\t{i + 1}\t{1 if ones else r.choice((0.75, 1, 1.5))}\n")
PY
}
tiny=(challenge --neurons 32 --layers 5)
folder bits 37 ones
folder numbers 37 other
folder few 3 ones
for d in bits numbers few; do
    for mode in raw exact merged; do
        ok "$d, $mode: alone" "${tiny[@]}" --data $d --mode $mode -o $d.$mode --json
        judge "$d, $mode: one rank" "d['ranks'] == 1 and d['categories'] > 0 and d['categories'] < d['inputs']"
    done
done
cp out alone.json

# Without the part a process of several must not work alone in silence.
mkdir lone
cp "$wisp" lone/wisp
PMI_SIZE=4 lone/wisp "${tiny[@]}" --data few >out 2>err
rc=$?
check "no wisp-mpi.so: refused" [ $rc = 2 ]
check "no wisp-mpi.so: says so" grep -q '^wisp: started by mpirun as one of 4 processes, but wisp-mpi.so: not found' err
check "no wisp-mpi.so: no answer" [ ! -s out ]
SLURM_STEP_NUM_TASKS=2 lone/wisp "${tiny[@]}" --data few >out 2>err
rc=$?
check "srun: refused" [ $rc = 2 ]
check "srun: says so" grep -q 'started by srun as one of 2' err
OMPI_COMM_WORLD_SIZE=4 WISP_MPI=0 lone/wisp "${tiny[@]}" --data few --json >out 2>err
rc=$?
check "WISP_MPI=0: works alone" [ $rc = 0 ]
SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4 OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1 lone/wisp "${tiny[@]}" --data few --json >out 2>err
rc=$?
check "started with one process: works alone" [ $rc = 0 ]

need_mpi

# several NAME RANKS WANT ARGS...: runs, must succeed, with the categories of WANT and one line of JSON
several() {
    rm -f got
    mpi -np "$2" "$wisp" "${@:4}" -o got --json
    if [ $rc != 0 ]; then bad "$1" "expected success"; return; fi
    same "$1: categories" got "$3"
    check "$1: one rank speaks" [ "$(wc -l <out)" = 1 ]
    judge "$1: ranks" "d['ranks'] == $2"
}
for np in 1 2 4; do
    for d in bits numbers; do
        several "$d, $np ranks, exact" $np $d.exact "${tiny[@]}" --data $d
    done
    several "numbers, $np ranks, raw" $np numbers.raw "${tiny[@]}" --data numbers --mode raw
    several "bits, $np ranks, merged" $np bits.merged "${tiny[@]}" --data bits --mode merged
done
several "more ranks than inputs" 5 few.merged "${tiny[@]}" --data few --mode merged
judge "more ranks than inputs: all were counted" "d['inputs'] == 3 and d['categories'] == $(wc -l <few.merged)"
live=$(/usr/bin/python3 -c 'import json; print(json.loads(open("alone.json").read())["live_layers"])')
judge "the work of all ranks" "abs(d['live_layers'] - $live) < 1e-9"
several "threads" 2 bits.exact "${tiny[@]}" --data bits --threads 3
judge "threads: as told" "d['threads'] == 3"
several "threads" 2 bits.exact "${tiny[@]}" --data bits
judge "threads: cores are shared" "1 <= d['threads'] <= max(1, $(nproc) // 2)"
mpi -np 2 "$wisp" "${tiny[@]}" --data bits
check "for people" grep -q 'on cpu, 2 ranks: ' out
check "for people: once" [ "$(grep -c ^answer out)" = 1 ]

# Rank 0 makes the caches before the others look for them; where none can be made it alone says so.
rm -f bits/*.wispcache
several "no caches yet" 4 bits.exact "${tiny[@]}" --data bits
check "no caches yet: they are made" [ -s bits/sparse-images-32.tsv.wispcache ]
check "no caches yet: nothing half made is left" [ -z "$(find bits -name '*tmp*')" ]
rm bits/sparse-images-32.tsv.wispcache
mkdir bits/sparse-images-32.tsv.wispcache
several "no room for a cache" 2 bits.exact "${tiny[@]}" --data bits
check "no room for a cache: said once" [ "$(grep -c 'no cache is kept' err)" = 1 ]

# broken NAME CODE WORDS ARGS-OF-MPIRUN...: all ranks must exit with CODE, and one message be said, with WORDS
broken() {
    mpi "${@:4}"
    if [ $rc != "$2" ]; then bad "$1" "expected exit code $2"
    elif [ "$(grep -c '^wisp: ' err)" != 1 ]; then bad "$1" "expected one message"
    elif ! grep -qE -e "^wisp: $3" err; then bad "$1" "expected '$3' on stderr"
    elif [ -s out ]; then bad "$1" "expected nothing on stdout"
    else pass; fi
}
cp -r few cut
sed -i '3s/.*/1\t2/' cut/neuron32/n32-l4.tsv
rm -f cut/*.wispcache
broken "all ranks fail" 5 'nowhere/sparse-images-32.tsv: not found' -np 3 "$wisp" "${tiny[@]}" --data nowhere
broken "rank 1 fails" 5 'rank 1 \(.*\): nowhere/sparse' \
    -np 1 "$wisp" "${tiny[@]}" --data few : -np 1 "$wisp" "${tiny[@]}" --data nowhere
broken "ranks 1 and 2 fail" 3 'rank 1 \(.*\): cut/neuron32/n32-l4.tsv:3' \
    -np 1 "$wisp" "${tiny[@]}" --data few : -np 2 "$wisp" "${tiny[@]}" --data cut
broken "rank 0 fails" 3 'cut/neuron32/n32-l4.tsv:3' \
    -np 1 "$wisp" "${tiny[@]}" --data cut : -np 2 "$wisp" "${tiny[@]}" --data few
broken "rank 0 cannot write" 5 '.*nofolder/x' -np 2 "$wisp" "${tiny[@]}" --data few -o nofolder/x
broken "ranks with different inputs" 2 '.*different data: from 3 to 37 inputs' \
    -np 1 "$wisp" "${tiny[@]}" --data few : -np 1 "$wisp" "${tiny[@]}" --data bits
broken "a wrong setting" 2 '--topology: random is made' -np 2 "$wisp" "${tiny[@]}" --data few --topology random
# mpirun reports one exit code: each rank's own, in a file of its own
cat >each <<'EOF'
#!/bin/sh
"$@" 2>/dev/null
echo $? >"code.$$"
EOF
chmod +x each
mpi -np 1 ./each "$wisp" "${tiny[@]}" --data few : -np 3 ./each "$wisp" "${tiny[@]}" --data cut
check "each rank's exit code" [ "$(cat code.* | tr '\n' ' ')" = "3 3 3 3 " ]
rm -f code.*
mpi -np 3 ./each "$wisp" "${tiny[@]}" --data few -o nofolder/x
check "each rank's exit code, at the end" [ "$(cat code.* | tr '\n' ' ')" = "5 5 5 " ]

# the official network
real "the official network" graphchallenge
ok "1024 x 120: alone" challenge --data "$data" --mode merged -o official
for np in 1 2 4; do
    for mode in exact merged; do
        several "1024 x 120, $np ranks, $mode" $np official challenge --data "$data" --mode $mode
        judge "1024 x 120, $np ranks, $mode: truth" "d['truth'] == 'match' and d['categories'] == 1812 and d['inputs'] == 60000"
    done
done
end
