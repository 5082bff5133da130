#!/usr/bin/env bash
# Output rows of each sample's own, hogwild, and nets with a wide sampled layer: they learn, and a stopped run resumed
# ends with the bytes of one that was left alone.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth S --rows 3000 --features 2000 --labels 300
wide="input 64, relu, sampled 512, relu"
options=(S_train.txt --valid S_test.txt --hidden 64 --dropout 0.1 --epochs 8 --batch 64 --random 50 --carry 20 --patience 0 --lr 0.01 --threads 1 --json)
net=(--hidden "" --dropout -1 --net) # which says all layers

# learns NAME OPTIONS...: and what it says
learns() {
    ok "$1" train "${options[@]}" -o m "${@:2}"
    judge "$1: it learns" 'd["valid_p@1"] > 70'
    cp err said
    ok "$1: eval" eval m S_test.txt --json
    judge "$1: the model on disk is as good" 'd["p@1"] > 70'
}

# resumes NAME OPTIONS...: stopped after some epoch, then to the end, as often as it takes
resumes() {
    local stops=0 pid n more
    rm -f r r.state whole
    ok "$1: left alone" train "${options[@]}" -o whole "${@:2}"
    for n in 1 3 99; do
        more=()
        [ -e r.state ] && more=(--resume)
        : >err # epochs of the run before must not count
        "$wisp" train "${options[@]}" -o r "${more[@]}" "${@:2}" >out 2>err &
        pid=$!
        for _ in $(seq 2000); do
            kill -0 $pid 2>/dev/null || break
            [ "$(grep -c '^epoch' err)" -ge $n ] && kill -s INT $pid 2>/dev/null
            sleep 0.005
        done
        wait $pid
        rc=$?
        [ $rc = 130 ] && stops=$((stops + 1))
        [ $rc = 0 ] && break
    done
    check "$1: it was stopped" [ $stops -gt 0 ]
    check "$1: it came to its end" [ $rc = 0 ]
    same "$1: the same bytes" r whole
}

own=(--sampling neighbours+random --active-per example)
learns "rows of each sample's own" "${own[@]}"
learns "the published method" --sampling lsh --hash dwta --active-per example --hogwild yes
learns "hogwild" "${own[@]}" --hogwild yes --threads 2
for n in 1 2; do ok "hogwild, one thread" train "${options[@]}" "${own[@]}" --hogwild yes --epochs 2 -o "h$n"; done
same "hogwild, one thread: the same run twice" h1 h2
learns "a sampled layer" "${net[@]}" "$wide"
check "the plan names it" grep -q "^net  *$wide; 300 outputs, " said
check "the plan names its sampler" grep -q 'sampling full, hidden lsh' said
for n in 1 2 4; do
    ok "$n threads" train "${options[@]}" "${own[@]}" "${net[@]}" "$wide" --epochs 1 --threads $n -o "t$n"
done
same "2 threads as 1" t1 t2
same "4 threads as 1" t1 t4

resumes "rows of each sample's own" "${own[@]}"
resumes "hashing, rows of each sample's own" --sampling lsh --active-per example
resumes "hogwild, one thread" "${own[@]}" --hogwild yes
resumes "a sampled layer" "${net[@]}" "$wide"
resumes "two sampled layers, ivf" "${net[@]}" "input 32, relu, sampled 256, relu, sampled 128, relu" --hidden-sampling ivf+random \
    --sampling ivf --active-per example

refuse "a precision that processors do not have" 2 "precision: 'tf32' is for cards" train S_train.txt -o x --precision tf32
refuse "hogwild with one set for all" 2 "hogwild yes: needs --active-per example" train S_train.txt -o x --hogwild yes --sampling lsh
refuse "hogwild with all rows" 2 "sampling other than full" train S_train.txt -o x --hogwild yes --active-per example
refuse "a finder that needs labels" 2 "hidden-sampling: 'neighbours' needs labels" train S_train.txt -o x --hidden-sampling neighbours
refuse "a sampled layer first" 2 "must be 'input'" train S_train.txt -o x --net "sampled 64"
ok "info" info
check "info lists the layer" grep -qE '^  sampled ' out
end
