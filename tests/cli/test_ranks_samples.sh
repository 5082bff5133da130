#!/usr/bin/env bash
# Ranks that divide the samples of a batch (--divide samples, which images and tables get by themselves): losses, P@k, model
# files and checkpoints must be those of one rank, batch norm and dropout included.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# shellcheck source=tests/cli/mpi.bash
. "$here/mpi.bash"
need_mpi

# 600 images of 12 x 12, of which a bright bar says the class, and a table of 12 columns
/usr/bin/python3 - <<'PY' || exit 1
import random, struct
r = random.Random(1)
x, y = bytearray(), bytearray()
for i in range(600):
    c = r.randrange(4)
    y.append(c)
    x += bytes(min(255, r.randrange(120) + 110 * ((c < 2) == (row // 6 == c % 2) if c < 2 else column // 6 == c % 2))
               for row in range(12) for column in range(12))
open("pictures-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 600, 12, 12) + x)
open("pictures-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, 600) + y)
with open("table.txt", "w") as f:
    for i in range(700):
        v = [r.gauss(0, 1) for _ in range(12)]
        f.write(f"{int(v[0] + v[1] * v[2] > 0) + 2 * int(v[3] > 0.3)} " + " ".join(f"{j + 1}:{3 * a + 1:.4f}" for j, a in enumerate(v)) + "\n")
PY
pictures=pictures-images-idx3-ubyte
export WISP_CONV=direct # else each rank takes what is fastest for its samples, and ways round otherwise
how=(--epochs 2 --precision fp32 --threads 1 --seed 3)
norms="image pad=2 flip=yes, conv 8 3 stride=2 bias=no, bn, relu, conv 16 3 bias=no, bn, relu, flatten, dropout 0.2, dense 40, bn, relu"

# compare NAME RANKS BATCH FILE NET OPTIONS...: one rank, then others
compare() {
    local np
    ok "$1, alone" train "$4" -o alone --net "$5" --batch "$3" "${how[@]}" "${@:6}" --log alone.log
    ok "$1, alone: eval" eval alone "$4" --json
    cp out alone.json
    for np in $2; do
        mpi -np "$np" "$wisp" train "$4" -o "m$np" --net "$5" --batch "$3" "${how[@]}" "${@:6}" --log "m$np.log" --json
        check "$1, $np ranks" [ $rc = 0 ]
        cp err train.err
        check "$1, $np ranks: one speaks" [ "$(wc -l <out)" = 1 ]
        # every gradient once to its joiner and its sum back, a flag per row, and the pulse; batch norm's sums besides
        judge "$1, $np ranks: bytes sent, at most 1.1 of the formula" \
            "0.98 < d['sent_bytes_per_step'] / (2 * ($np - 1) / $np * 4 * d['parameters'] + 40 * ($np - 1)) < 1.1"
        alike "$1, $np ranks: losses and P@k" alone.log "m$np.log"
        check "$1, $np ranks: a file of the same size" [ "$(stat -c %s alone)" = "$(stat -c %s "m$np")" ]
        check "$1, $np ranks: nothing else is left" [ -z "$(find . -name "m$np.*" ! -name '*.log')" ]
        ok "$1, $np ranks: eval by one process" eval "m$np" "$4" --json
        judge "$1, $np ranks: P@1" "abs(d['p@1'] - json.load(open('alone.json'))['p@1']) < 0.7"
    done
}
compare "convolutions, batch norm, dropout" "2 3" 66 $pictures "$norms"
compare "a dense net of images" 3 64 $pictures "input 32, relu, dropout 0.3, dense 16, relu" --input-dropout 0.1
compare "a table" 3 50 table.txt "input 32, relu, dense 16, relu"

compare "some samples at a time" 2 64 $pictures "image, conv 16 3, relu, conv 16 3, relu, maxpool 2, flatten, dense 10, relu" --memory 500K
check "some samples at a time: so it was" grep -q '^lots ' train.err

# 539 training rows in batches of 269: the third one has a sample for rank 0 and none for the others.
ok "a batch of one sample, alone" train $pictures -o alone --net "$norms" --batch 269 "${how[@]}" --log alone.log
judge "it has three steps in each epoch" "d['step'] == 6" alone.log
mpi -np 3 "$wisp" train $pictures -o m3 --net "$norms" --batch 269 "${how[@]}" --log m3.log
check "a batch of one sample, 3 ranks" [ $rc = 0 ]
alike "a batch of one sample: losses and P@k" alone.log m3.log

# What 3 ranks began others end; rank 0 kills itself at a renaming, and the others miss it.
long=(--net "$norms" --batch 66 "${how[@]}" --epochs 5 --checkpoint-steps 3)
ok "uninterrupted" train $pictures -o whole "${long[@]}" --log whole.log
for np in 1 2; do
    rm -f part* hit
    mpi -np 3 env LD_PRELOAD="$build/tests/faults/inject.so" INJECT="rename 20 once kill" INJECT_HIT="$work/hit" \
        "$wisp" train $pictures -o part "${long[@]}" --deadline 10
    check "rank 0 was killed on its way" [ -e hit ]
    for _ in $(seq 500); do [ ! -e part.lock ] || flock -n part.lock true && break; sleep 0.02; done # ranks end after mpirun
    mpi -np $np "$wisp" train $pictures -o part "${long[@]}" --resume --log part.log
    check "resumed by $np ranks" [ $rc = 0 ]
    check "resumed by $np ranks: says so" grep -qE '^resume .*: from epoch' err
    alike "resumed by $np ranks: losses and P@k" whole.log part.log
done

# The other way to divide, asked for.
mpi -np 2 "$wisp" train $pictures -o rows --net "$norms" --batch 66 "${how[@]}" --divide rows --log rows.log --json
check "rows of labels, of images" [ $rc = 0 ]
judge "rows of labels: what they send does not depend on the net" "d['sent_bytes_per_step'] < d['parameters']"
mpi -np 2 "$wisp" train $pictures -o x --net "$norms" "${how[@]}" --divide samples --sampling random --index no
check "sampled labels are not divided by samples" grep -q '^wisp: --divide samples: not with several ranks; take --sampling full' err

# On cards: what there is no form for is said in one line (what there is: tests/gpu/ranks.bash).
lacks() { # NAME WORDS RANKS OPTIONS...
    CUDA_VISIBLE_DEVICES="" mpi -np "$3" "$wisp" train $pictures -o x "${how[@]}" --device cuda "${@:4}"
    check "on cards, $1: refused" [ $rc = 2 ]
    check "on cards, $1: in one line" [ "$(grep -c '^wisp: ' err)" = 1 ]
    check "on cards, $1: which says why" grep -q -e "^wisp: $2" err
    check "on cards, $1: nothing is left" [ ! -e x ]
}
lacks "rows of labels" "--device cuda: not with several ranks; cards divide the samples of a batch alone: take --divide samples" 2 \
    --net "$norms" --divide rows
lacks "sampled labels" "--divide samples: not with several ranks; take --sampling full" 2 --net "$norms" --divide samples --sampling random
lacks "a penalty" "--group-penalty, --cut or --magnitude: not with several ranks" 2 --net "$norms" --group-penalty 0.1
lacks "no card" "--device cuda: " 2 --net "$norms"
refuse "an exchange with sampled labels" 2 "^wisp: --exchange: not with sampled labels" train table.txt -o x --device cuda --exchange host \
    --sampling random
refuse "cards of cores" 2 "^wisp: --cards: expected --device cuda beside it; 'mpirun -np 2" train $pictures -o x --cards 2

# --cards N starts the same command line by mpirun, once.
mkdir path
cat >path/mpirun <<'SH'
#!/bin/sh
for word; do printf '%s\n' "$word"; done
SH
chmod +x path/mpirun
PATH=$work/path:$PATH "$wisp" train --cards 3 --device cuda -o x --seed 5 -- $pictures >out 2>err
check "ranks for three cards: mpirun is asked" [ $? = 0 ]
printf '%s\n' -np 3 --bind-to none "$(readlink -f "$wisp")" train --cards 3 --device cuda -o x --seed 5 --cards=1 -- $pictures >want
same "ranks for three cards: with this command line" out want
PATH=$work "$wisp" train --cards 2 --device cuda -o x $pictures >out 2>err
check "ranks for cards without mpirun: refused" [ $? = 2 ]
check "ranks for cards without mpirun: which package is missing" \
    grep -q "^wisp: --cards: there is no mpirun, which starts a process for each card; install it (on Debian: apt-get install openmpi-bin" err
end
