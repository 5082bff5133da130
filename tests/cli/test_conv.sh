#!/usr/bin/env bash
# Nets of images from the command: trained, killed and resumed, with one and three threads, used, gone on from.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

# SIDE ROWS NAME: idx files of noisy images with a bar in one of eight places (the label), which may be a pixel off.
bars() {
    /usr/bin/python3 - "$@" <<'PY'
import random, struct, sys
side, rows, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
r = random.Random(name)
pixels, labels = bytearray(), bytearray()
for _ in range(rows):
    label = r.randrange(8)
    image = [[r.randrange(60) for _ in range(side)] for _ in range(side)]
    at = 1 + label % 4 * (side - 4) // 4 + r.randrange(2)
    for i in range(side):
        for k in (at, at + 1):
            if label < 4:
                image[i][k] = r.randrange(120, 256)
            else:
                image[k][i] = r.randrange(120, 256)
    pixels += bytes(x for row in image for x in row)
    labels.append(label)
open(f"{name}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, rows, side, side) + pixels)
open(f"{name}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, rows) + labels)
PY
}
bars 16 600 train
bars 16 200 test
bars 14 20 small
options=(train-images-idx3-ubyte --valid test-images-idx3-ubyte --epochs 4 --batch 32 --lr 0.003 --patience 0 --json)

# By name, and with every kind there is for images, branches among them.
all="image flip=no, conv 9 3 stride=2 bias=no as a, bn, relu, maxpool 3 stride=1 pad=1, as x, conv 17 3 as c1, bn, relu,
 conv 9 1x3, add x, relu, conv 18 3 groups=3, avgpool 2, dropout 0.1, as y, conv 5 1, concat y,
 as z, globalavg as g, from z, flatten, concat g"
for net in lenet "$all"; do
    name=${net%%,*}
    ok "$name" train "${options[@]}" --threads 1 -o one --net "$net"
    judge "$name learns" 'd["valid_p@1"] > 60'
    judge "$name: zeros of what a ReLU or a pool gives" '[k.split(".")[1] for k in d["zeros"]] == {"lenet": "relu maxpool relu maxpool relu relu"}.get("'"$name"'", "relu maxpool relu relu avgpool").split() and all((0 if "avg" in k else 1e-9) <= z < 1 for k, z in d["zeros"].items())'
    check "$name: zeros, for a person" grep -qE '^zeros     [0-9]+\.relu [0-9]+ %, [0-9]+\.maxpool [0-9]+ %, ' err
    cp out out.one
    ok "$name: three threads" train "${options[@]}" --threads 3 -o three --net "$net"
    same "$name: 1 and 3 threads make the same model" one three
    check "$name: and count the same zeros" test "$(grep -o '"zeros":{[^}]*}' out)" = "$(grep -o '"zeros":{[^}]*}' out.one)"
    ok "$name: eval" eval one test-images-idx3-ubyte --json
    judge "$name: the model on disk is as good" 'd["p@1"] > 60'
    ok "$name: predict" predict one test-images-idx3-ubyte
    check "$name: a line for every image" test "$(wc -l <out)" = 200
    ok "$name: goes on from a model" train "${options[@]}" --epochs 1 -o on --init one --log log
    check "$name: zeros in the log, at the end of an epoch as at the end" test "$(grep -o '"zeros":{[^}]*}' log)" = "$(grep -o '"zeros":{[^}]*}' out)"
    judge "$name: and does not forget" 'd["valid_p@1"] > 60'

    # Killed twice and resumed: the same bytes as if it had been left alone.
    rm -f killed killed.*
    for _ in 1 2; do
        "$wisp" train "${options[@]}" --threads 2 -o killed --net "$net" --resume --checkpoint-steps 7 >out 2>err &
        pid=$!
        for _ in {1..400}; do
            grep -qE '^epoch [1-3]' err && break
            sleep 0.02
        done
        kill -s KILL $pid 2>/dev/null
        wait $pid 2>/dev/null
    done
    ok "$name: resumed" train "${options[@]}" --threads 2 -o killed --net "$net" --resume --checkpoint-steps 7
    same "$name: killed and resumed, the same model" one killed
done
# Products in bf16: as good, the same with any number of threads; fp32 never takes that way.
bf16() { WISP_CONV=bf16,direct,plain ok "$@"; }
bf16 "bf16" train "${options[@]}" --threads 1 -o half --net lenet --precision bf16
judge "bf16 learns" 'd["valid_p@1"] > 60'
check "the plan says so" grep -q 'products in bf16, 5 of 5 passes of convolutions too' err
bf16 "bf16: three threads" train "${options[@]}" --threads 3 -o half3 --net lenet --precision bf16
same "bf16: 1 and 3 threads make the same model" half half3
bf16 "fp32, though the way in bf16 is named" train "${options[@]}" --threads 1 -o full --net lenet --precision fp32
WISP_CONV=direct,plain ok "fp32" train "${options[@]}" --threads 1 -o direct --net lenet --precision fp32
same "it is fp32" full direct
check "and bf16 is not" not cmp -s full half

# Products with zeros left out: as good, the same bytes with any number of threads.
ok "zeros skipped" train "${options[@]}" --threads 1 -o skipped --net lenet --zeros force
judge "it learns as well" 'd["valid_p@1"] > 60'
check "the plan says so" grep -q '3 of 5 passes of convolutions skip zeros where there are many' err
ok "zeros skipped: three threads" train "${options[@]}" --threads 3 -o skipped3 --net lenet --zeros force
same "zeros skipped: 1 and 3 threads make the same model" skipped skipped3
ok "zeros not skipped" train "${options[@]}" --threads 1 -o dense --net lenet --zeros off
check "the plan does not say so" not grep -q 'skip zeros' err
numbers skipped
numbers dense
check "other sums" not cmp -s skipped.numbers dense.numbers

# Results of ReLUs that count in the loss: more of them are 0; the same bytes with any number of threads.
judge "zeros are counted" '0 < d["zeros"]["6.maxpool"] < 0.3'
ok "more zeros" train "${options[@]}" --threads 1 -o more --net lenet --more-zeros 0.3
judge "there are more" 'd["zeros"]["6.maxpool"] > 0.3'
judge "and it still learns" 'd["valid_p@1"] > 60'
check "the plan says it" grep -qE '^training .*, more zeros 0.3, ' err
ok "more zeros: three threads" train "${options[@]}" --threads 3 -o more3 --net lenet --more-zeros 0.3
same "more zeros: 1 and 3 threads make the same model" more more3
ok "more zeros: what one epoch leaves behind" train "${options[@]}" --epochs 1 --keep-state -o part --net "$all" --more-zeros 0.3
refuse "another weight is another run" 4 "--more-zeros was '0.3' and is '0'" train "${options[@]}" --epochs 1 -o part --net "$all" --resume
ok "inspect what had it" inspect more --json
judge "the model says it" 'd["card"]["more_zeros"] == 0.3'
refuse "no ReLU of channels" 2 "--more-zeros: the net has no 'relu' of channels with height and width, as one behind a 'conv' is; leave the option out" train "${options[@]}" -o x --net "image, flatten, dense 4, relu" --more-zeros 1
refuse "no weight" 2 "--more-zeros: -1 is not in 0..1000" train "${options[@]}" -o x --net lenet --more-zeros -1

# Prediction: whatever it does with zeros, one image at a time or many, the scores are the same up to rounding; a batch norm behind a
# convolution is part of its weights, however they are packed.
near() {
    check "$1" /usr/bin/python3 -c '
import sys
def scores(name):
    return [dict(word.split(":") for word in line.split()) for line in open(name)]
a, b = scores(sys.argv[1]), scores(sys.argv[2])
assert a and len(b) and all(x.keys() == y.keys() and len(x) == 8 for x, y in zip(a, b))
worst = max(abs(float(x[k]) - float(y[k])) for x, y in zip(a, b) for k in x)
assert worst < 1e-4, worst' "$2" "$3"
}
# part FROM N AS: some of the images as a set of their own
part() {
    /usr/bin/python3 - "$@" <<'PY'
import struct, sys
name, first, n, to = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
pixels = open(f"{name}-images-idx3-ubyte", "rb").read()[16:]
labels = open(f"{name}-labels-idx1-ubyte", "rb").read()[8:]
open(f"{to}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, n, 16, 16) + pixels[256 * first:256 * (first + n)])
open(f"{to}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, n) + labels[first:first + n])
PY
}
part test 0 1 first
part train 0 257 many
part train 255 2 last
for model in dense one; do
    ok "$model: predicted densely" predict $model test-images-idx3-ubyte -k 8 --zeros off
    cp out off
    for how in "force --threads 1" "force --threads 3" "auto"; do
        for images in test first; do
            # shellcheck disable=SC2086
            ok "$model: $images predicted, zeros $how" predict $model $images-images-idx3-ubyte -k 8 --zeros $how
            near "$model: $images, the same scores by zeros $how" out off
        done
        # shellcheck disable=SC2086
        ok "$model: 257 images, zeros $how" predict $model many-images-idx3-ubyte -k 8 --zeros $how --json
        tail -n 2 out | sed 's/"row":[0-9]*//' >many
        # shellcheck disable=SC2086
        ok "$model: the last two of them, zeros $how" predict $model last-images-idx3-ubyte -k 8 --zeros $how --json
        sed 's/"row":[0-9]*//' out >last
        same "$model: zeros $how: an image's scores do not depend on how many there are, from two on" many last
    done
done
# Calls of one row go ways of their own, here 'plain'; the last row of a batch does not.
ok "predicted densely" predict one test-images-idx3-ubyte -k 8
cp out off
mkdir own
WISP_CONV="" HOME=$PWD/own ok "ways for one row, and for many" predict one many-images-idx3-ubyte --json
check "are measured for either" grep -q " 1 kept" own/.cache/wisp/conv
awk -F '\t' -v OFS='\t' '{ $6 = $4 ~ / 1 kept/ ? "plain" : "direct" } 1' own/.cache/wisp/conv >ways
mv ways own/.cache/wisp/conv
WISP_CONV="" HOME=$PWD/own ok "many" predict one many-images-idx3-ubyte -k 8 --json
tail -n 2 out | sed 's/"row":[0-9]*//' >many
WISP_CONV="" HOME=$PWD/own ok "two" predict one last-images-idx3-ubyte -k 8 --json
sed 's/"row":[0-9]*//' out >last
same "the last one of 257 goes the way of many" many last
WISP_CONV="" HOME=$PWD/own ok "one" predict one first-images-idx3-ubyte -k 8
near "one by itself has the same scores" out off
WISP_CONV="" HOME=$PWD/empty ok "bench predict has it, too" bench predict dense test-images-idx3-ubyte --test-rows 8 --seconds 0.01 --zeros auto --json

ok "inspect" inspect one --json
judge "parameters have PyTorch's order" 'any(t.get("name") == "c1.weight" and t.get("shape") == [17, 9, 3, 3] for t in d["tensors"])'

# What was measured is kept: at home, else in the session's folder.
mkdir session
rm -rf empty
mkdir empty
small=(train-images-idx3-ubyte --epochs 1 --batch 64 --net "image, conv 4 3, relu, flatten" -o kept)
WISP_CONV="" HOME=$PWD/empty XDG_RUNTIME_DIR=$PWD/session ok "at home" train "${small[@]}"
check "two passes: nobody takes the gradient of an image" test "$(wc -l <empty/.cache/wisp/conv)" = 2
check "and nowhere else" test ! -e session/wisp
printf 'wisp-conv\0\n\xff\t' >empty/.cache/wisp/conv
WISP_CONV="" HOME=$PWD/empty ok "a damaged file" train "${small[@]}"
check "is added to" test "$(grep -ac '^wisp-conv 7' empty/.cache/wisp/conv)" = 2
WISP_CONV="" HOME=/proc/nowhere XDG_RUNTIME_DIR=$PWD/session ok "a home that cannot be written" train "${small[@]}"
check "the session's folder" test "$(wc -l <session/wisp/conv)" = 2
cp session/wisp/conv before
WISP_CONV="" HOME=/proc/nowhere XDG_RUNTIME_DIR=$PWD/session ok "once more" train "${small[@]}"
same "nothing is measured twice" before session/wisp/conv
# Without --zeros a pass skips them from the share on that was measured.
deep=(train-images-idx3-ubyte --epochs 1 --batch 16 --net "image, conv 16 3, relu, conv 16 3, relu, flatten" -o deep)
mkdir deeper
WISP_CONV="" HOME=$PWD/deeper XDG_RUNTIME_DIR=$PWD/deeper ok "zeros by default" train "${deep[@]}"
WISP_CONV="" HOME=$PWD/deeper XDG_RUNTIME_DIR=$PWD/deeper ok "zeros off" train "${deep[@]}" --zeros off
check "off: nothing is said of skipping" test "$(grep -c 'skip zeros where there are many' out err | awk -F: '{ n += $2 } END { print n }')" = 0
check "by default both sides of the weights' gradient are measured" test "$(grep -c 'zeros of g*[xy], skip after' deeper/.cache/wisp/conv)" = 4
sed -i '/zeros of/s/[0-9]*$/0/' deeper/.cache/wisp/conv
WISP_CONV="" HOME=$PWD/deeper XDG_RUNTIME_DIR=$PWD/deeper ok "zeros by default, from none on" train "${deep[@]}"
check "the plan says so" grep -q '3 of 5 passes of convolutions skip zeros where there are many' out err
WISP_CONV=direct,quick refuse "a way that is none" 2 "WISP_CONV: no way 'quick' to compute convolutions; 'wisp info' lists them" train "${small[@]}"

# What does not fit.
synth S --rows 100 --features 50 --labels 4
refuse "rows that are no images" 2 "nets/lenet.net:3:1: 'image' reads images" train S_train.txt -o no --net lenet
refuse "a net for larger images" 2 "nets/alexnet.net:[0-9]+:1: '(conv|maxpool)' has a kernel of [0-9]+x[0-9]+, larger than what it reads, [0-9]+ x [0-9]+ x [0-9]+ " \
    train small-images-idx3-ubyte -o no --net alexnet
refuse "units without flatten" 2 "'dense' takes units, found 4 x 16 x 16 .*'flatten' makes units of them" \
    train train-images-idx3-ubyte -o no --net "image, conv 4 3, dense 8"
refuse "images of another size" 3 "images of 1 x 14 x 14 .* the net reads images of 1 x 16 x 16|14.*16" eval one small-images-idx3-ubyte
check "nothing was written" test ! -e no
end
