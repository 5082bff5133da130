#!/usr/bin/env bash
# wisp bench: what it reports, when it ends, what it refuses, and that it leaves nothing behind.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

# ---- help and refusals ----
ok "bench train --help" bench train --help all
check "help begins with the usage" grep -q '^usage: wisp bench train --shape' out
for key in shape seconds epochs test-rows sampling hidden threads json log; do
    check "help lists --$key, once" [ "$(grep -c "^  --$key " out)" = 1 ]
done
for key in valid holdout resume labels format cache; do # they are about files
    check "help does not list --$key" not grep -q "^  --$key " out
done
ok "bench --help" bench --help
refuse "no part" 2 "a part is missing" bench
check "no part: usage" grep -q '^usage: wisp bench train' err
refuse "an unknown part" 2 "bench: there is no such part: 'fly'" bench fly
check "an unknown part: usage" grep -q '^usage: wisp bench train' err
refuse "a part too many" 2 "'more'" bench train more
refuse "no shape" 2 "--shape is missing" bench train
for shape in 3x4 amazon 10x10x 0x5x5 10x10x99999999999; do refuse "shape $shape" 2 "--shape: '$shape' is not one of amazon670k" bench train --shape $shape; done
refuse "an unknown flag" 2 "'--fly'" bench train --fly
refuse "an option about files" 2 "'--resume'" bench train --shape 9x9x9 --resume
refuse "-o" 2 "'-o'" bench train --shape 9x9x9 -o m
refuse "--seconds below 0" 2 "--seconds: -1" bench train --shape 9x9x9 --seconds -1
refuse "--sampling of no known name" 2 "fly" bench train --shape 900x90x9 --sampling fly
refuse "--log that cannot be written" 5 "--log: no/where cannot be written" bench train --shape 9x9x9 --log no/where

# ---- what it reports ----
before=$(find . | sort)
ok "full" bench train --shape 3000x800x300 --epochs 2 --threads 1 --test-rows 500 --json
check "one line on stdout" [ "$(wc -l <out)" = 1 ]
judge "what was asked" 'd["shape"] == "3000x800x300" and (d["rows"], d["features"], d["labels"]) == (3000, 800, 300) and d["device"] == "cpu" and d["threads"] == 1'
judge "the defaults" 'd["batch"] == 256 and d["hidden"] == 128'
judge "all rows" 'd["active_mean"] == 300 and d["scored_mean"] == 300 and d["retrieval_recall"] == 1'
judge "two epochs" 'd["epochs"] == 2 and d["heldout_rows"] == 500'
judge "parts and sum" '0 < d["first_step_seconds"] < d["train_seconds"] < d["seconds"] and d["peak_bytes"] > 4 * d["parameters"]'
judge "the rate is that of the steps after the first" \
    'abs(d["samples_per_s"] * (d["train_seconds"] - d["first_step_seconds"]) / (6000 - 256) - 1) < 1e-3'
judge "time of a step" 'abs(d["us_per_step"] * d["samples_per_s"] / 256e6 - 1) < 1e-6'
check "progress on stderr" [ "$(grep -c '^epoch [12]/2 .*valid P@1' err)" = 2 ]
check "the rate on stderr names the epoch's" grep -qE '^epoch 2/2 .* [0-9]+ rows/s' err

# 3 passes over the weights, 2 over the moments (8 or 4 bytes per weight), and E twice
for moments in fp32 bf16; do
    ok "moments of $moments" bench train --shape 3000x800x300 --epochs 1 --optimizer adam --moments $moments --precision fp32 --json
    cp out $moments.json
done
check "moments of bf16 are half the bytes" /usr/bin/python3 -c '
import json
a, b = (json.load(open(f + ".json"))["bytes_per_sample"] - 2 * 300 * 4 for f in ("fp32", "bf16"))
print(a, b)
assert abs(a / b - (3 * 4 + 2 * 8) / (3 * 4 + 2 * 4)) < 1e-6'
rm fp32.json bf16.json

sampled=(bench train --shape 4000x2000x6000 --hidden 32 --batch 64 --threads 1 --loss softmax --test-rows 500)
ok "sampled" "${sampled[@]}" --epochs 4 --json
judge "sampled: what was asked" 'd["batch"] == 64 and d["hidden"] == 32 and d["labels"] == 6000'
judge "sampled: few rows" '64 < d["active_mean"] <= d["scored_mean"] < 3000'
judge "sampled: recall" '0 < d["retrieval_recall"] <= d["recall_union"] <= 1'
cp out one.json

# The held-out figure is the last model's, on the rows that 'wisp synth' writes as test rows, scored exactly.
synth S --shape 4000x2000x6000 --test-rows 500
ok "the same by wisp train" train S_train.txt --valid S_test.txt -o m --hidden 32 --batch 64 --threads 1 --loss softmax --epochs 4 --log log
/usr/bin/python3 -c '
import json
a, b = json.load(open("one.json")), json.loads(open("log").read().splitlines()[-1])
print(a, b)
assert a["heldout_p@1"] > 3 and abs(a["heldout_p@1"] - b["valid_p@1"]) < 1e-3 and abs(a["active_mean"] - b["active_mean"]) < 0.1' >check.log 2>&1
rc=$?
check "bench train is wisp train" [ $rc = 0 ]
rm -rf S_* m m.state log home/.cache

# A rate that breaks the model again after a good epoch: the best of the test figures would be a peek.
ok "a run that gets worse" bench train --shape 3000x800x300 --hidden 16 --lr 0.3 --decay none --warmup 0 --epochs 2 --threads 1 --test-rows 500 --log log --json
check "the last model counts, not the best" /usr/bin/python3 -c '
import json
d, p = json.load(open("out")), [json.loads(x)["valid_p@1"] for x in open("log")]
print(d, p)
assert abs(d["heldout_p@1"] - p[-1]) < 1e-3 and max(p) > p[-1] + 1'
rm log

ok "another seed" "${sampled[@]}" --epochs 1 --seed 2 --json
judge "a run that ends in the first epoch" 'd["epochs"] == 1'
ok "no test rows" "${sampled[@]}" --epochs 1 --test-rows 0 --json
judge "no test rows: -1" 'd["heldout_p@1"] == -1'
ok "one step" bench train --shape 100x50x20 --epochs 1 --test-rows 0 --json
judge "one step: a rate" 'd["samples_per_s"] > 0 and d["epochs"] == 1'
ok "a net" bench train --shape 300x50x20 --net "input 8, relu, dense 4, relu" --epochs 1 --json
judge "a net: its text" 'd["hidden"] == "input 8, relu, dense 4, relu"'
ok "two widths" bench train --shape 300x50x20 --hidden 8,4 --epochs 1 --json
judge "two widths: their text" 'd["hidden"] == "8,4"'

# ---- when it ends ----
ok "--seconds" "${sampled[@]}" --epochs 1000 --patience 0 --seconds 0.5 --json
judge "--seconds is kept" '0.5 <= d["train_seconds"] < 1.5 and 0 < d["epochs"] < 1000'
judge "--seconds: recall of the last step, P@1 of the last model" 'd["retrieval_recall"] > 0 and d["heldout_p@1"] > 0'
ok "--seconds within the first epoch" "${sampled[@]}" --shape 40000x2000x6000 --epochs 4 --seconds 0.05 --json
judge "a part of an epoch" 'd["train_seconds"] >= 0.05 and 0 < d["epochs"] < 1 and d["heldout_p@1"] >= 0 and d["retrieval_recall"] > 0'
ok "--epochs before --seconds" "${sampled[@]}" --epochs 1 --seconds 1000 --json
judge "the first to come ends it" 'd["epochs"] == 1 and d["train_seconds"] < 500'

# ---- prediction ----
refuse "predict: nothing to measure" 2 "--shape, or a model and data, are missing" bench predict
refuse "predict: a model alone" 2 "the data to predict is missing" bench predict m
refuse "predict: a model and a shape" 2 "'m'" bench predict m d --shape 9x9x9
refuse "predict: a fourth part" 2 "'x'" bench predict m d x
refuse "predict: no such model" 5 "nowhere" bench predict nowhere S_test.txt
refuse "predict: no rows" 2 "there are no rows to predict" bench predict --shape 90x90x9 --epochs 1 --test-rows 0

predict=(--hidden 32 --batch 64 --threads 1 --loss softmax --test-rows 512)
ok "predict --shape" bench predict --shape 4000x2000x6000 "${predict[@]}" --seconds 0.1 --json
check "predict: one line on stdout" [ "$(wc -l <out)" = 1 ]
check "predict: training is seen" grep -q '^epoch 1/1 ' err
judge "predict: what was asked" 'd["shape"] == "4000x2000x6000" and (d["labels"], d["hidden"], d["threads"], d["rows"]) == (6000, 32, 1, 512)'
judge "predict: times ascend" '0 < d["sparse_us_median"] <= d["sparse_us_p90"] <= d["sparse_us_p99"] and d["exact_us_median"] > 0 and d["train_seconds"] > 0'
judge "predict: every row" 'd["sparse_calls"] >= 512 and d["exact_calls"] >= 20'
judge "predict: few rows are scored, nearly as good" 'd["scored_mean"] == 256 and d["exact_p@1"] > 1 and abs(d["ratio"] - d["sparse_p@1"] / d["exact_p@1"]) < 1e-6 and d["ratio"] > 0.9'
judge "predict: the product" 'abs(d["batch_gflops"] / (2e-9 * d["batch_rows_per_s"] * 6000 * 32) - 1) < 1e-6 and d["peak_gflops"] > 0'
judge "predict: the weights" 'abs(d["batch_gb_per_s"] / (4e-9 * d["batch_rows_per_s"] / d["batch_rows"] * 6000 * 32) - 1) < 1e-6 and d["copy_gb_per_s"] > 0'
cp out one.json

# Its model and its figures are those of 'wisp train' and 'wisp eval' on the rows of 'wisp synth'.
synth S --shape 4000x2000x6000 --test-rows 512
ok "predict: the same by wisp train" train S_train.txt --valid S_test.txt -o m "${predict[@]:0:8}" --epochs 1 --index yes --cache -
ok "predict: the same by wisp eval" eval m S_test.txt --inference sparse --json --cache -
cp out eval.json
ok "predict MODEL DATA" bench predict m S_test.txt --seconds 0.05 --json
judge "predict MODEL DATA: what was asked" 'd["model"] == "m" and "shape" not in d and d["labels"] == 6000 and d["hidden"] == 32 and d["rows"] == 512'
check "predict: the figures of train and eval" /usr/bin/python3 -c '
import json
a, b, e = json.load(open("one.json")), json.load(open("out")), json.load(open("eval.json"))
print(a, b, e)
for d in a, b:
    assert abs(d["sparse_p@1"] - e["p@1"]) < 1e-4 and abs(d["exact_p@1"] - e["exact_p@1"]) < 1e-4 and abs(d["scored_mean"] - e["scored_mean"]) < 1e-4'
ok "predict: fewer rows" bench predict m S_test.txt --seconds 0.3 --test-rows 20 --json
judge "predict: fewer rows are taken, again and again" 'd["rows"] == 20 and d["sparse_calls"] > 40 and d["exact_calls"] > 40'
ok "predict: a table" bench predict m S_test.txt --seconds 0.01
check "predict: the table" [ "$(cut -d' ' -f1 out | tr '\n' ' ')" = "model sparse exact quality scored batches compute memory " ]
ok "predict: batches of 7" bench predict m S_test.txt --seconds 0.01 --batch 7 --threads 1 --json
judge "predict: so many rows per call" 'd["batch_rows"] == 7 and d["batch_us_median"] > 0 and d["batch_rows_per_s"] > 0'
refuse "predict: larger batches than there are" 2 "--batch: 257 rows; predictions are made of up to 256" bench predict m S_test.txt --batch 257
CUDA_VISIBLE_DEVICES="" refuse "predict: no card" 2 "--device cuda: " bench predict m S_test.txt --device cuda
ok "predict: rows of bf16" bench predict --shape 400x200x600 --rows bf16 --epochs 1 --seconds 0.01 --test-rows 256 --json
judge "predict: half the bytes" 'abs(d["batch_gb_per_s"] / (2e-9 * d["batch_rows_per_s"] / 256 * 600 * 128) - 1) < 1e-6'
ok "predict: a table of a shape" bench predict --shape 400x200x600 --seconds 0.01
check "predict: the table of a shape" [ "$(cut -d' ' -f1 out | tr '\n' ' ')" = "shape trained sparse exact quality scored batches compute memory " ]
ok "train without an index" train S_train.txt -o none "${predict[@]:0:8}" --epochs 1 --index no --cache -
ok "predict: a model without an index" bench predict none S_test.txt --seconds 0.01 --json
judge "predict: a model without an index: exact figures" 'd["exact_us_median"] > 0 and d["exact_us_p99"] >= d["exact_us_median"] and d["batch_rows_per_s"] > 0 and 0 < d["exact_p@1"] <= 100 and not any(k.startswith("sparse") for k in d)'
ok "predict: a table without an index" bench predict none S_test.txt --seconds 0.01
check "predict: the table without an index" grep -q '^sparse    no index' out
averaged=("${predict[@]:0:8}" --lr 0.3 --decay none --epochs 2 --patience 0 --average 0.5)
ok "predict: averaged weights" bench predict --shape 4000x2000x6000 "${averaged[@]}" --test-rows 512 --seconds 0.01 --json
cp out one.json
ok "predict: averaged weights, by wisp train" train S_train.txt --valid S_test.txt -o m "${averaged[@]}" --cache - --log log
check "predict: the last weights, averaged" /usr/bin/python3 -c '
import json
a, b = json.load(open("one.json")), json.loads(open("log").read().splitlines()[-1])
print(a, b)
assert abs(a["exact_p@1"] - b["valid_p@1"]) < 1e-4'
rm -rf S_* m none eval.json log home/.cache

# ---- a table for a person, a log, nothing else ----
ok "a table" "${sampled[@]}" --epochs 1 --log log
check "the table" [ "$(cut -d' ' -f1 out | tr '\n' ' ')" = "shape rate trained active scored recall phases floor held-out memory " ]
judge "the log" 'd["epoch"] == 1 and d["valid_p@1"] >= 0' log

# ---- steps of nets of images ----
refuse "steps: no net" 2 "--net: missing: say a net of images" bench steps --batch 4
refuse "steps: a net without images" 2 "--net: 'mlp' reads no images; 'wisp bench train'" bench steps --net mlp --batch 4
refuse "steps: no batch" 2 "--batch: missing" bench steps --net lenet
refuse "steps: no shape known" 2 "--shape: missing: nobody knows what images" bench steps --net "image, conv 4 3, flatten" --batch 4
for shape in 3x4x5 lenet 1x28x28x 0x5x5x5 1x28x28x99999999 1x28x28x10x; do
    refuse "steps: shape $shape" 2 "--shape: '$shape' is not CHANNELSxHEIGHTxWIDTHxLABELS" bench steps --net lenet --batch 4 --shape $shape
done
refuse "steps: a shape too small" 2 "lenet.net:7:1: 'conv' has a kernel of 5x5, larger than what it reads" bench steps --net lenet --batch 4 --shape 1x5x5x10
refuse "steps: two files" 2 "one file too many: 'y'" bench steps x y --net lenet --batch 4
refuse "steps: no such file" 5 "nowhere" bench steps nowhere --net lenet --batch 4
refuse "steps: images have a shape" 2 "steps: --shape is for images that are not there, 'x' has its own" bench steps x --net lenet --batch 4 --shape 1x28x28x10
ok "steps" bench steps --net lenet --batch 4 --threads 1 --seconds 0.05 --json
judge "steps: what was asked" 'd["net"] == "lenet" and d["shape"] == "1x28x28x10" and (d["batch"], d["threads"], d["parameters"]) == (4, 1, 61706)'
judge "steps: times" 'd["steps"] >= 3 and 0 < d["ms_min"] <= d["ms_median"] and abs(d["images_per_s"] * d["ms_median"] / 4000 - 1) < 1e-6'
judge "steps: operations" 'abs(d["gflops"] * d["ms_median"] / (4 * d["flops_per_image"] * 1e-6) - 1) < 1e-6'
judge "steps: every layer" '[k["kind"] for k in d["layers"]].count("conv") == 2 and d["layers"][1]["name"] == "conv1" and d["layers"][-1]["kind"] == "output"'
judge "steps: layers make the step" '0.5 < (sum(k["forward_ms"] + k["back_ms"] for k in d["layers"]) + d["layout_ms"]) / d["ms_mean"] < 1.01'
judge "steps: of a kind the median of its layers together" 'all(abs(k["forward_ms"] / d["flatten_forward_ms"] - 1) < 1e-4 for k in d["layers"] if k["kind"] == "flatten") and d["conv_forward_ms"] > max(k["forward_ms"] for k in d["layers"] if k["kind"] == "conv")'
judge "steps: no memory for what is no part of it" 'd["plan_bytes"] < d["step_bytes"] + 9 * d["parameters"]'
judge "steps: memory" 'd["bound_bytes"] <= d["step_bytes"] < d["plan_bytes"] and 0 <= d["grown_bytes"] < d["peak_bytes"]'
# Pixels as floats, of two batches: no list of them beside, which would take 24 bytes for each, twice.
ok "steps: large images" bench steps --net "image, conv 4 3 stride=8, relu, globalavg" --shape 3x128x128x2 --batch 64 --threads 1 --seconds 0.01 --json
if nm "$wisp" 2>/dev/null | grep -q __asan_init; then
    skip "steps: lists of pixels" "AddressSanitizer keeps what was freed"
else
    judge "steps: nobody reads lists of pixels, none are made" 'd["grown_bytes"] < d["plan_bytes"] + 3 * 4 * 64 * 3 * 128 * 128'
fi
ok "steps: a table" bench steps --net "image, conv 4 3, relu, globalavg" --shape 3x8x8x5 --batch 4 --threads 2 --seconds 0.02
check "steps: its rows" [ "$(grep -cE '^(net|step|rate|layers|memory)  +' out)" = 5 ]
check "steps: kinds" grep -qE '^layers .* conv [0-9.]+ \+ [0-9.]+,.*; ms per step' out
# ---- the way of images to a net ----
/usr/bin/python3 -c '
import struct
open("train-images-idx3-ubyte", "wb").write(struct.pack(">4I", 0x803, 300, 28, 28) + bytes(i % 251 for i in range(300 * 784)))
open("train-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 0x801, 300) + bytes(i % 10 for i in range(300)))'
echo "1 3:0.5" >rows.txt
refuse "input: no images" 2 "input: a file or folder of images is missing" bench input
refuse "input: a file too many" 2 "one file too many: 'y'" bench input x y
refuse "input: no such file" 5 "nowhere" bench input nowhere
refuse "input: a net without images" 2 "--net: 'mlp' reads no images" bench input train-images-idx3-ubyte --net mlp
refuse "input: rows of lists" 3 "rows.txt: rows that are no images" bench input rows.txt
ok "input" bench input train-images-idx3-ubyte --threads 1 --batch 50 --seconds 0.02 --net lenet --json
judge "input: what was read" '(d["images"], d["labels"], d["batch"], d["threads"], d["image"]) == (300, 10, 50, 1, "1 x 28 x 28")'
judge "input: rates" 'd["reads"] >= 2 and 0 < d["first_read_images_per_s"] <= d["read_images_per_s"] and d["laid_images_per_s"] > 100'
refuse "steps: rows of lists" 3 "rows.txt: rows that are no images" bench steps rows.txt --net lenet --batch 1
refuse "steps: fewer images than a step" 2 "--batch: train-images-idx3-ubyte has 300 images, fewer than a step takes" bench steps train-images-idx3-ubyte --net lenet --batch 400
ok "steps of images" bench steps train-images-idx3-ubyte --net lenet --batch 4 --threads 1 --seconds 0.05 --zeros force --json
judge "steps of images: theirs" '(d["shape"], d["rows"], d["batch"]) == ("1x28x28x10", 300, 4)'
judge "steps: what skipped zeros" '[k["skipped"] for k in d["layers"] if k["kind"] == "conv"] == [[0, 0, 0], [1, 1, 1]]'
judge "steps: zeros of a convolution" '[0.1 < z < 1 for k in d["layers"] if k["kind"] == "conv" for z in k["zeros"]] == [False] * 3 + [True] * 3'
# ---- zeros ----
refuse "activations: no net" 2 "--net: missing: say a net of images" bench activations --batch 4
refuse "activations: images have a shape" 2 "activations: --shape is for images that are not there, 'x' has its own" bench activations x --net lenet --batch 4 --shape 1x28x28x10
ok "activations" bench activations train-images-idx3-ubyte --net lenet --batch 30 --threads 2 --epochs 3 --seconds 100 --lr 0.001 --json
judge "activations: steps" '(d["steps"], d["looked"]) == (29, 4)'
judge "activations: what is written together is told once" '[(k["name"], k["kind"]) for k in d["layers"]][1:4] == [("conv1", "conv+relu"), ("3.maxpool", "maxpool"), ("conv2", "conv+relu")]'
judge "activations: shares" 'all(0 <= v <= 1 for k in d["layers"][1:-1] for v in [k["zeros"], k["gradient_zeros"], *k["live"], *k["gradient_live"]])'
judge "activations: larger slices live longer" 'all(1 - k[p + "zeros"] <= a + 1e-3 and a <= b <= c for k in d["layers"][1:-1] for p in ("", "gradient_") for a, b, c in [k[p + "live"]])'
judge "activations: the monitor says the same" 'all(abs(d["zeros"][a] - k["zeros"]) < 0.1 for k in d["layers"] for a in [{"conv1": "2.relu", "conv2": "5.relu"}.get(k["name"], k["name"])] if a in d["zeros"]) and len(d["zeros"]) == 6'
judge "activations: a ReLU leaves as many gradients at most" 'all(k["gradient_zeros"] >= k["zeros"] - 1e-3 for k in d["layers"] if k["kind"] == "conv+relu")'
judge "activations: passes" 'all(k["forward_ms"] > 0 for k in d["layers"] if "conv" in k["kind"]) and [k["data_ms"] > 0 for k in d["layers"] if "conv" in k["kind"]] == [False, True] and all(k["weights_ms"] > 0 for k in d["layers"] if "conv" in k["kind"])'
ok "activations: a table" bench activations train-images-idx3-ubyte --net lenet --batch 30 --threads 1 --seconds 0.05
check "activations: its rows" [ "$(grep -cE '^(net  |layer |conv[12] +conv\+relu +[0-9]|9.relu +relu +[0-9])' out)" = 5 ]
check "activations: no shares of the head" grep -qE '^fc3 +output +- +- ' out
ok "input: a table" bench input train-images-idx3-ubyte --seconds 0.01
check "input: its rows" [ "$(grep -cE '^(images|read|laid out|memory)  +' out)" = 4 ]
rm -f train-* rows.txt*

PYTHON=/bin/false "$root/bench/images" "$build" steps memory predict --nets lenet --seconds 0.01 --rounds 1 >out 2>err
rc=$?
check "bench/images without PyTorch" [ "$rc-$(wc -c <err)" = 0-0 ]
check "bench/images: every row says so" [ "$(grep -c 'lenet .* no PyTorch for /bin/false: pip install torch' out)" = 6 ]
check "bench/images: our own figures" [ "$(grep -cE '^lenet +(fp32|bf16) +64 +1 +[0-9.]+ +-' out)" = 2 ]
check "bench/images: no such core" [ "$("$root/bench/images" "$build" steps --cores "0," 2>&1 | sed 's/ one of .*//')" = "bench/images: --cores: '' is not" ]
check "bench/images: an unknown net" [ "$("$root/bench/images" "$build" steps --nets fly 2>&1)" = "bench/images: --nets: 'fly' is not one of lenet, resnet18-cifar, alexnet, vgg16, resnet18" ]
check "bench/prune: an unknown part" [ "$("$root/bench/prune" "$build" fly 2>&1)" = "bench/prune: no part 'fly'; there are mlp, magnitude, unstructured, lenet, images, radix, yso" ]
check "bench/prune: no data" [ "$("$root/bench/prune" "$build" images --mnist . 2>&1)" = "bench/prune: images needs --cifar FOLDER (../shared/data/unpack)" ]

# ---- bench/ab: two builds in turn, here commands that say what they are told ----
fake() { # NAME SAMPLES_PER_S
    cat >"$1" <<END
#!/bin/sh
echo $1 >>turns
[ \$2 != predict ] || exit 3
echo '{"samples_per_s":$2,"peak_bytes":1000}'
END
    chmod +x "$1"
}
ab() {
    rm -f turns
    /usr/bin/python3 "$root/bench/ab" "$@" >out 2>err
    rc=$?
}
fake old 1000
fake new 985
ab old new 3 amazon-1
check "ab: 0.985 of the speed will do" [ $rc = 0 ]
check "ab: the ratio" grep -qE '^amazon-1 +samples/s +1,000.0 +985.0 +0.985 \(0.985 .. 0.985\)  memory 1.000$' out
check "ab: in turn, the other first in every second round" [ "$(tr '\n' ' ' <turns)" = "old new new old old new " ]
fake new 975
ab old new 1 amazon-1
check "ab: 0.975 will not" [ $rc = 1 ]
check "ab: it is said" grep -q 'SLOWER$' out
ab old new 1 amazon-2 predict
check "ab: what cannot run is skipped, loudly" grep -qE '^predict +SKIPPED: OLD .*exits with 3' out
check "ab: and counted" grep -q '^SKIPPED 1 of 2 workloads: predict$' out
ab old new 1 predict
check "ab: nothing measured is no success" [ $rc = 1 ]
ab "$wisp" "$build" 1 amazon-1 predict --shape 900x90x9 --seconds 0.05
check "ab: the command itself" [ "$(grep -cE '^(amazon-1|predict) .* [0-9.]+ \(' out)" = 4 ]
rm -f old new turns

# ---- programs that are compiled when they are asked for ----
for program in gemm parse text mnist/layers; do
    # shellcheck disable=SC2086 # $CC may hold a launcher or flags
    check "bench/$program.c compiles" ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/include" -I"$root/src" -fsyntax-only "$root/bench/$program.c"
done

rm -f out err check.log log one.json
check "nothing is left behind" [ "$(find . | sort | grep -vE '^\./(out|err|check.log)$')" = "$(grep -vE '^\./(out|err|check.log)$' <<<"$before")" ]
end
