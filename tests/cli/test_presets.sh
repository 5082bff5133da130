#!/usr/bin/env bash
# Nets by name, from a file and in many lines; what a model keeps of them; where their errors are.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
synth S --rows 1500 --features 1000 --labels 60
options=(S_train.txt --valid S_test.txt --epochs 6 --batch 64 --lr 0.003 --patience 0 --threads 2 --json)

ok "info" info
nets= # those of rows; of the others test_conv.sh trains one
for net in $(names nets); do
    check "info lists $net" grep -qE "^  $net +(input|image) " out
    grep -qE "^  $net +image " out || nets="$nets $net"
    ok "info again" info
done
ok "info --json" info --json
judge "names of nets" '{"mlp", "residual-mlp", "two-branch", "lenet", "resnet18-cifar", "resnet18", "alexnet", "vgg16"} <= set(d["nets"])'

"$wisp" info | sed -n '/^layers/,/^$/p' | sed '1d;$d' >layers
check "a range" grep -qE '^    width  .*\(a whole number from 1 to 1048576\)' layers
check "a default" grep -qE '^    inputs .*from 1 to 1024; else 32\)' layers
check "values that are joined" grep -qE '^    NAME ... .*1 to 7 further values' layers

"$wisp" info | sed -n '/^card: /,/^$/p' | sed '1d' >card # what it has of six tables, or why there is none
if "$wisp" info --json | grep -q '"cuda"'; then
    check "what a card has" [ "$(grep -cE '^  [a-z]+ +[a-z0-9]+(, |$)' card)" = 6 ]
else
    check "why there is no card" [ "$(grep -cE '^  none +--device cuda: .' card):$(grep -c . card)" = 1:1 ]
fi

# By name: the model keeps the layers, and goes on from itself without the name.
for net in $nets; do
    ok "$net" train "${options[@]}" -o "$net.m" --net $net
    judge "$net learns" 'd["valid_p@1"] > 40'
    ok "$net: inspect" inspect "$net.m" --json
    judge "$net: the model keeps its layers" 'd["net"].startswith("input ") and "#" not in d["net"] and "\n" not in d["net"]'
    ok "$net: eval" eval "$net.m" S_test.txt --json
    judge "$net: the model on disk is as good" 'd["p@1"] > 40'
    ok "$net: init" train "${options[@]}" --epochs 1 -o again --init "$net.m"
    ok "$net: init, named" train "${options[@]}" --epochs 1 -o named --init "$net.m" --net $net
done

# From a file, which may be gone afterwards.
cp "$root/nets/residual-mlp.net" mine.net
ok "a file" train "${options[@]}" -o file --net mine.net
ok "its line" inspect file --json
line=$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["net"])')
ok "the line itself" train "${options[@]}" -o line --net "$line"
tensors() { /usr/bin/python3 -c '
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", b[:8])
head = json.loads(b[8:8 + n])
for name, t in sorted(head.items()):
    if not name.startswith("__"):
        i, j = t["data_offsets"]
        print(name, t["shape"], hash(b[8 + n + i:8 + n + j]))' "$1"; }
export PYTHONHASHSEED=0
tensors file >file.txt
tensors line >line.txt
tensors residual-mlp.m >name.txt
check "names of blocks" grep -q '^block.3.fc2.weight ' file.txt
same "a file and its line: the same weights" file.txt line.txt
same "a file and the preset: the same weights" file.txt name.txt
rm mine.net
ok "without the file" predict file S_test.txt -k 1

# Stopped after an epoch and resumed.
cp "$root/nets/two-branch.net" mine.net
rm -f r r.state
ok "left alone" train "${options[@]}" -o whole --net mine.net --threads 1
: >err
"$wisp" train "${options[@]}" -o r --net mine.net --threads 1 >out 2>err &
pid=$!
for _ in $(seq 2000); do
    kill -0 $pid 2>/dev/null || break
    [ "$(grep -c '^epoch' err)" -ge 1 ] && kill -s INT $pid 2>/dev/null
    sleep 0.005
done
wait $pid
rc=$?
check "it was stopped" [ $rc = 130 ]
sed 's/dense 128/dense 64/' mine.net >other.net
cp mine.net kept.net
cp other.net mine.net
refuse "resumed with a file that has changed" 4 "belongs to another run: its net is" train "${options[@]}" -o r --net mine.net --threads 1 --resume
cp kept.net mine.net
ok "resumed" train "${options[@]}" -o r --net mine.net --threads 1 --resume
same "the same bytes" r whole

# Where errors are.
printf 'input 8\n  relu\n  dens 4\n' >bad.net
refuse "a line of a file" 2 "^wisp: bad.net:3:3: there is no layer 'dens'; did you mean 'dense'\?" train "${options[@]}" -o x --net bad.net
printf '# wide\ninput 8 as a\ndense 4\nadd a' >bad.net
refuse "shapes" 2 "^wisp: bad.net:4:1: 'add' needs values of one shape" train "${options[@]}" -o x --net bad.net
refuse "no file" 5 "none.net" train "${options[@]}" -o x --net none.net
refuse "a folder" 5 "home.net" train "${options[@]}" -o x --net home.net
refuse "a name that is nearly one" 2 "did you mean 'residual-mlp'\?" train "${options[@]}" -o x --net residual_mlp
refuse "a name" 2 "there is no net and no layer 'vgg'" train "${options[@]}" -o x --net vgg
refuse "a column" 2 "^wisp: --net:1:10: there is no layer 'rleu'; did you mean 'relu'\?" train "${options[@]}" -o x --net "input 8, rleu"
check "nothing was written" [ ! -e x ]
end
