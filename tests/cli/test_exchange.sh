#!/usr/bin/env bash
# Weights by PyTorch's names: a file that somebody else wrote becomes a model with the logits of a plain program, a model
# becomes such a file, training starts from one, and what does not fit is named with both shapes.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"

# The net of tests/exchange.py, which computes it without any library and names its weights as PyTorch would.
net="image flip=yes, conv 5 3 pad=1 bias=no as conv1, bn as layer1-0-bn1, relu, maxpool 2, conv 4 3 stride=2 groups=1 as features-3,
 relu, flatten, dense 7 as classifier-0, relu, output as classifier-2"
python() { /usr/bin/python3 "$root/tests/exchange.py" "$@"; }

for type in F32 BF16 F16; do
    check "$type: a file is made" python make $type weights.safetensors images.npy logits.json
    printf 'ant\nbee\ncat\n' >names.txt
    ok "$type: becomes a model with names" convert weights.safetensors model --net "$net" --image 3x9x8 --labels names.txt --json
    judge "$type: what it is" 'd["labels"] == 3 and d["image"] == "3 x 9 x 8" and "ImageNet" in d["means"]'
    ok "$type: predicts" predict model images.npy --scores raw -k 3 --json
    cp out answers.json
    check "$type: with the logits of a plain program" python compare logits.json answers.json ant bee cat
done

# There and back: all numbers, and the same bytes once the file is wisp's own.
python make F32 weights.safetensors images.npy logits.json
ok "a model" convert weights.safetensors model --net "$net" --image 3x9x8 --mean 0.4,0.5,0.6 --std 0.2,0.25,0.3
ok "weights of it" convert model back.safetensors
check "the same tensors" python same weights.safetensors back.safetensors
ok "which say what they are of" convert back.safetensors again
ok "weights once more" convert again twice.safetensors
same "the same bytes" back.safetensors twice.safetensors
ok "a small model" convert model small --quantize bf16
ok "has weights, too" convert small small.safetensors
check "of the same shapes" python shapes weights.safetensors small.safetensors

# Training from weights: all but the output layer, with other labels.
python data train
ok "training starts from weights" train train.npz --net "$net" --init back.safetensors -o tuned --epochs 1 --lr 1e-9 --threads 1
check "and says so" grep -q "init .*back.safetensors: 12 tensors; the output layer classifier-2 is new, with 4 labels" err
check "with the file's means" grep -q "images .*0.400 +- 0.200, 0.500 +- 0.250, 0.600 +- 0.300, the file's" err
ok "what it took" convert tuned one.safetensors
check "is what was there" python near weights.safetensors one.safetensors classifier.2 running_
ok "ImageNet's, where the file says nothing" train train.npz --net "$net" --init weights.safetensors -o tuned --epochs 1
check "are said" grep -q "images .*0.485 +- 0.229.*ImageNet's" err
ok "three threads" train train.npz --net "$net" --init back.safetensors -o three --epochs 1 --lr 1e-9 --threads 3
ok "as one" convert three three.safetensors
same "the same bytes for 1 and 3 threads" one.safetensors three.safetensors
refuse "no net" 2 "weights from elsewhere, which say nothing of their net" train train.npz --init weights.safetensors -o no
refuse "another net" 4 "tensor 'conv1.weight' is F32 5 x 3 x 3 x 3, the net's is F32 6 x 3 x 3 x 3" \
    train train.npz --init weights.safetensors -o no --net "${net/conv 5/conv 6}"
refuse "a net without images" 2 "only nets that read images" train train.npz --init weights.safetensors -o no --net "input 8"

# What does not fit.
bad_file() { # NAME CODE WORDS CHANGE...
    python change weights.safetensors changed.safetensors "${@:4}"
    refuse "$1" "$2" "$3" convert changed.safetensors no --net "$net" --image 3x9x8
    check "$1: no file" test ! -e no
}
bad_file "missing" 4 "changed.safetensors: tensor 'features.3.bias' \(F32 4\) of the net is missing; the file has" drop features.3.bias
bad_file "too many" 4 "tensor 'fc.bias' \(F32 4\) is of no layer of the net" add fc.bias 4
bad_file "another shape" 4 "tensor 'features.3.bias' is F32 2 x 2, the net's is F32 4" shape features.3.bias 2,2
bad_file "another type" 4 "tensor 'features.3.bias' is I32 4, expected numbers of F32, BF16 or F16" type features.3.bias I32
bad_file "no number" 4 "tensor 'features.3.bias' has a value that is infinite or no number" put features.3.bias nan
bad_file "no variance" 4 "tensor 'layer1.0.bn1.running_var' is -1 at 1, expected a variance" put layer1.0.bn1.running_var -1
bad_file "no count is fine, another tensor not" 4 "tensor 'x' \(F32 1\)" drop layer1.0.bn1.num_batches_tracked add x 1
bad_file "means" 4 "metadata 'mean' and 'std' are '0.5' and '0.1 0.1 0', expected 3 numbers" meta mean 0.5 meta std "0.1 0.1 0"
head -c 700 weights.safetensors >cut.safetensors
refuse "cut off in its header" 4 "cut.safetensors: cut off: a header of" convert cut.safetensors no --net "$net" --image 3x9x8
head -c -8 weights.safetensors >cut.safetensors
refuse "cut off" 4 "cut off: tensor .classifier.2.bias. ends at" convert cut.safetensors no --net "$net" --image 3x9x8
refuse "no net to convert" 2 "--net: weights.safetensors does not say of which net" convert weights.safetensors no --image 3x9x8
refuse "no size" 2 "--image: weights.safetensors does not say what images" convert weights.safetensors no --net "$net"
refuse "a bad size" 2 "'3x9' is not CHANNELSxHEIGHTxWIDTH" convert weights.safetensors no --net "$net" --image 3x9
refuse "one of two" 2 "--mean and --std are given together" convert weights.safetensors no --net "$net" --image 3x9x8 --mean 0,0,0
refuse "too few" 2 "2 numbers, expected one for each of 3 channels" convert weights.safetensors no --net "$net" --image 3x9x8 --mean 0,0 --std 1,1
refuse "a deviation of 0" 2 "0 cannot be" convert weights.safetensors no --net "$net" --image 3x9x8 --mean 0,0,0 --std 1,1,0
echo one >one.txt
refuse "too few names" 2 "one.txt: has 1 names, weights.safetensors has 3 labels" \
    convert weights.safetensors no --net "$net" --image 3x9x8 --labels one.txt
refuse "not a model yet" 4 "not written by wisp; 'wisp convert' makes a model" predict weights.safetensors images.npy
refuse "weights are not made smaller" 2 "weights from elsewhere" convert weights.safetensors no --quantize bf16
refuse "an option of weights" 2 "--image is about weights from elsewhere" convert train.npz no.npz --image 3x9x8
refuse "an option of weights, and a model" 2 "--net is about weights from elsewhere" convert model no.safetensors --net lenet
synth toy --rows 200 --features 50 --labels 4
"$wisp" train toy_train.txt -o words --epochs 1 --quiet
refuse "a model of words" 2 "only nets that read images" convert words no.safetensors

# Against PyTorch itself, where it is.
if /usr/bin/python3 -c 'import torch, safetensors' 2>/dev/null; then
    check "PyTorch: ResNet-18, LeNet, there and back" /usr/bin/python3 "$root/tests/exchange_torch.py" "$wisp"
else
    skip "PyTorch: ResNet-18, LeNet, there and back" "no Python modules torch and safetensors here"
fi
end
