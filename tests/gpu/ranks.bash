# Several ranks with cards (docs/ranks.md), for tests/gpu/run, which reads this with its functions and data: two and three ranks
# on one card, whose gradients the host adds up, against one rank; NCCL with one rank against none.  These alone, of which no test
# program has to be built: ONLY=^ranks tests/gpu/run build
mpi() {
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none \
        timeout -k 5 100 mpirun "$@" </dev/null
}
# with NAME TOLERANCE RANKS OPTIONS...: losses step by step of one rank, and of so many ("1 EXCHANGE": of one that adds up its own).
# The set is one batch, of which each rank has a part.  early=N: as for compare.
with() {
    local name=$1 tolerance=$2 ranks=$3 start=()
    shift 3
    [ "${ranks%% *}" = 1 ] || start=(mpi -np "$ranks")
    set -- --holdout 0 --batch "${rows:-128}" --epochs 20 --device cuda --sampling full --warmup 0 "$@"
    "$wisp" train "$one" --log "$work/cpu.log" -o "$work/alone.model" "$@" >"$work/cpu.out" 2>&1 || { cat "$work/cpu.out"; return 1; }
    case $ranks in
    1\ *) set -- "$@" --exchange "${ranks#* }" ;;
    *) set -- "$@" --divide samples ;;
    esac
    "${start[@]}" "$wisp" train "$one" --log "$work/cuda.log" -o "$work/ranks.model" "$@" >"$work/cuda.out" 2>&1 ||
        { cat "$work/cuda.out"; return 1; }
    grep -E '^exchange ' "$work/cuda.out" || { cat "$work/cuda.out"; return 1; }
    losses "$work/cpu.log" >"$work/cpu.losses"
    losses "$work/cuda.log" >"$work/cuda.losses"
    apart "$name" "$tolerance"
}
rate_of() {
    case $1 in
    adam) echo 0.001 ;;
    adagrad) echo 0.01 ;;
    *) echo 0.02 ;;
    esac
}
clear_line() { # WORDS RANKS OPTIONS...: refused with exactly one line that has these words
    local words=$1 ranks=$2
    shift 2
    mpi -np "$ranks" "$wisp" train "$one" --holdout 0 --epochs 1 --device cuda --quiet -o "$work/no.model" "$@" >"$work/out" 2>&1
    cat "$work/out"
    [ "$(grep -c '^wisp: ' "$work/out")" = 1 ] && grep -q -e "^wisp: $words" "$work/out" && [ ! -e "$work/no.model" ]
}
# resumed_by BEFORE AFTER OPTIONS...: what so many ranks began, of which one was killed, others end with the losses of a run that
# was left alone.
resumed_by() {
    local before=$1 after=$2 pid i
    shift 2
    set -- --holdout 0 --batch 64 --epochs 8 --device cuda --sampling full --precision fp32 --optimizer sgd --lr 0.005 --warmup 0 "$@"
    "$wisp" train "$more" --log "$work/cpu.log" -o "$work/whole" "$@" >"$work/out" 2>&1 || { cat "$work/out"; return 1; }
    rm -f "$work"/stop "$work"/stop.*
    mpi -np "$before" "$wisp" train "$more" -o "$work/stop" "$@" --divide samples --checkpoint-steps 5 --deadline 10 >"$work/out" 2>&1 &
    pid=$!
    for ((i = 0; i < 3000; i++)); do
        [ -e "$work/stop.state" ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.01
    done
    kill -9 "$(pgrep -n -f -- "-o $work/stop ")" # the last one started: a rank
    wait $pid 2>/dev/null
    for _ in $(seq 500); do [ ! -e "$work/stop.lock" ] || flock -n "$work/stop.lock" true && break; sleep 0.02; done
    [ -e "$work/stop.state" ] || [ -e "$work/stop.state.1" ] || { echo "nothing was killed"; cat "$work/out"; return 1; }
    mpi -np "$after" "$wisp" train "$more" --log "$work/cuda.log" -o "$work/stop" "$@" --divide samples --resume >"$work/out" 2>&1 ||
        { cat "$work/out"; return 1; }
    grep -E '^resume ' "$work/out" || { cat "$work/out"; return 1; }
    losses "$work/cpu.log" | tail -n 1 >"$work/cpu.losses"
    losses "$work/cuda.log" | tail -n 1 >"$work/cuda.losses"
    paste "$work/cpu.losses" "$work/cuda.losses" | awk '
        { d = $1 - $2; if (d < 0) d = -d; print "last loss " $1 " of one rank, " $2; exit !(d <= 1e-3 * $1) }'
}

# ---- what is checked ----

if ! command -v mpirun >/dev/null || [ ! -f "$build/wisp-mpi.so" ]; then
    echo "skip ranks: no mpirun, or no wisp-mpi.so"
    skipped=$((skipped + 1))
    return
fi
if [ -n "${SANITIZE-}" ]; then return; fi
residual_ranks="input 64, bn, relu, as x, dense 64, bn, add x, relu, dropout 0.1, identity, clip 3"
mask "$work/ranks1.tsv" 700 60 90
mask "$work/ranks2.tsv" 60 64 40
kinds=("input 64, relu, dense 48, relu, dropout 0.2, dense 36, relu" "$residual_ranks"
    "sparse mask=$work/ranks1.tsv width=60, relu, dropout 0.1, sparse file=$work/ranks2.tsv bias=0.1 width=64, relu"
    "sparse random 100 7, relu, sparse radix 64, relu"
    "dag file=$work/first.graph, dense 36, relu" "input 60, relu, dropout 0.1, dag mask=$work/inner.graph, relu")
one=$work/one_train.txt more=$work/more_train.txt
# One rank first, which adds up what it alone has: gradients kept, and rows moved by them.
for optimizer in adam adagrad sgd; do
    for net in "${kinds[@]}"; do
        show "ranks: one through the host, ${net//$work\//}, $optimizer" with "$optimizer" 2e-5 "1 host" --net "$net" --optimizer $optimizer \
            --lr "$(rate_of $optimizer)" --input-dropout 0.1 --precision fp32
    done
done
for options in "--precision bf16" "--precision bf16 --rows bf16" "--loss softmax --smoothing 0.1 --precision fp32"; do
    # shellcheck disable=SC2086
    show "ranks: one through the host, $options" with "$options" 2e-3 "1 host" --hidden 64,48 $options
done
for optimizer in adam adagrad sgd; do
    for net in "${kinds[@]}"; do
        show "ranks: two on one card, ${net//$work\//}, $optimizer" with "$optimizer" 2e-5 2 --net "$net" --optimizer $optimizer \
            --lr "$(rate_of $optimizer)" --input-dropout 0.1 --precision fp32
    done
done
show "ranks: three on one card" with "three" 2e-5 3 --net "$residual_ranks" --optimizer sgd --lr 0.02 --precision fp32
# 128 rows in batches of 42: the last has two samples, both rank 0's.
early=5 rows=42 show "ranks: two, of which one has no samples at times" with "42" 2e-5 2 --net "$residual_ranks" --optimizer sgd --lr 0.02 --precision fp32
show "ranks: two in bf16" with "bf16" 5e-3 2 --hidden 64,48 --precision bf16
for one in "$work/one28-images-idx3-ubyte" "$work/one32.bin"; do
    net=lenet
    [ "$one" = "$work/one32.bin" ] && net=$blocks
    for ranks in "1 host" 2 3; do
        early=5 show "ranks: images, ${net%%,*}, $ranks" with "$net, $ranks" 2e-5 "$ranks" --net "$net" --optimizer sgd --lr 0.02 --precision fp32
        show "ranks: images in bf16, ${net%%,*}, $ranks" with "$net, bf16, $ranks" 5e-2 "$ranks" --net "$net" --optimizer sgd --lr 0.02 --precision bf16
    done
done
one=$work/one28-images-idx3-ubyte more=$work/more28-images-idx3-ubyte
early=5 show "ranks: images, all kinds, two" with "all kinds" 2e-5 2 --net "$every" --optimizer sgd --lr 0.02 --precision fp32
show "ranks: two began, one ended" resumed_by 2 1 --net lenet
show "ranks: one began, three ended" resumed_by 1 3 --net lenet
check "ranks: rows are not divided on cards" clear_line "--device cuda: not with several ranks; cards divide the samples" 2 --divide rows
check "ranks: sampled labels" clear_line "--divide samples: not with several ranks; take --sampling full" 2 --divide samples --sampling random
check "ranks: NCCL wants a card for each" clear_line "--exchange nccl: two ranks work on the same card" 2 --exchange nccl
if "$wisp" info | grep -q 'no NCCL'; then
    echo "skip ranks: $("$wisp" info | grep -o 'no NCCL[^;]*')"
    skipped=$((skipped + 1))
else
    one=$work/one_train.txt
    show "ranks: one by NCCL" with "NCCL" 2e-5 "1 nccl" --net "$residual_ranks" --optimizer sgd --lr 0.02 --precision fp32
    one=$work/one32.bin
    early=5 show "ranks: one by NCCL, images" with "NCCL" 2e-5 "1 nccl" --net "$blocks" --optimizer sgd --lr 0.02 --precision fp32
fi
