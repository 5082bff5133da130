#!/usr/bin/env bash
# Which labels images have: folders by their names, arrays and records by their numbers, and both beside each other.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
# Three kinds of pictures, told apart by their brightest channel: 0 red, 1 green, 2 blue; by letters they are 2, 1, 0.
/usr/bin/python3 - <<'PY' || exit 1
import os, struct, zlib
import numpy as np
r = np.random.default_rng(3)
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(path, px, bits=8):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    px = px.astype(">u2" if bits == 16 else np.uint8)
    raw = b"".join(b"\0" + row.tobytes() for row in px)
    colours = 2 if px.ndim == 3 else 0
    with open(path, "wb") as o:
        o.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", px.shape[1], px.shape[0], bits, colours, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
names = ["red", "green", "blue"]
y = np.arange(90) % 3
x = r.integers(0, 80, (90, 32, 32, 3), dtype=np.uint8)
for i, c in enumerate(y): x[i, ..., c] = 220
for i, c in enumerate(y):
    png(f"names/{names[c]}/{i:02}.png", x[i])
    if c < 2: png(f"two/{names[c]}/{i:02}.png", x[i])
    png(f"numbers/{c * 5}/{i:02}.png", x[i])     # 0, 5, 10; by letters 0, 10, 5
    png(f"same/{c}/{i:02}.png", x[i])
    png(f"deep/{names[c]}/{i % 2}/{i:02}.png", x[i])
    png(f"wide/{names[c]}/{i:02}.png", x[i].astype(np.uint16) * 257, 16)
os.makedirs("deep/none/inside")
np.save("a.npy", x); np.save("a.y.npy", y)
np.savez("a.npz", x=x, y=y)
np.savez("five.npz", x=x, y=y * 5)
with open("a.bin", "wb") as o:
    for i in range(90): o.write(bytes([y[i]]) + x[i].transpose(2, 0, 1).tobytes())
grey = np.ascontiguousarray(x[..., 0])
with open("t-images-idx3-ubyte", "wb") as o: o.write(struct.pack(">IIII", 2051, 90, 32, 32) + grey.tobytes())
with open("t-labels-idx1-ubyte", "wb") as o: o.write(struct.pack(">II", 2049, 90) + (5 * (y == 0)).astype(np.uint8).tobytes())
for i, c in enumerate(y): png(f"bright/{5 * (c == 0)}/{i:02}.png", grey[i])
open("file", "w").write("red\ngreen\nblue\n")
PY
run convert names x.txt
if [ $rc = 3 ] && grep -q 'libpng16.so.16 is not there' err; then
    skip "folders of PNG files" "no libpng"
    end
    exit
fi
net=(--net "image, flatten, dense 8, relu" --epochs 8 --batch 10 --threads 1 --seed 1)
all_right() { # MODEL DATA: P@1 is 100 and all labels are known
    ok "eval $1 $2" eval "$1" "$2" --json
    judge "all of them right" 'd["p@1"] == 100'
    check "and all labels known" [ "$(grep -c 'does not know' err)" = 0 ]
}
ok "train on arrays with names beside" train a.npy --labels file -o named "${net[@]}"
all_right named names
all_right named two
ok "train on a folder" train names -o f "${net[@]}"
all_right f names
all_right f two
all_right f wide
ok "train on folders that are numbers" train numbers -o n "${net[@]}"
check "nothing is said of ids far apart" [ "$(grep -c 'far apart' err)" = 0 ]
all_right n numbers
all_right n five.npz
ok "train on arrays without names" train a.npy -o plain "${net[@]}"
ok "names beside, validated by a folder" train a.npy --labels file --valid two -o x "${net[@]}" --json
judge "whose labels are found by name" 'd["valid_p@1"] == 100'
all_right plain same
all_right plain a.bin

# Arrays of numbers beside a model of words: known by no name, and said so; to predict no labels are needed.
for d in a.npy a.npz a.bin; do
    ok "eval of words on $d" eval f "$d" --json
    judge "nothing is right" 'd["p@1"] == 0'
    check "and why" grep -q "$d: 90 labels that the model does not know count as misses" err
    ok "predict $d" predict f "$d" -k 1
    same "as the folder" <(sort out | cut -d: -f1 | uniq -c) <("$wisp" predict f names -k 1 2>/dev/null | sort | cut -d: -f1 | uniq -c)
done
ok "go on with numbers" train a.npz --init f -o more --epochs 1 --lr 1e-9 --optimizer sgd
ok "what it knows" inspect more --labels
same "six labels" <(printf '%s\n' blue green red 0 1 2) out
all_right more names
ok "words beside a model of numbers" eval plain names --json
check "are unknown" grep -q "names: the label 'red' is unknown: the labels that these go with have numbers and no names" err
judge "and nothing is right" 'd["p@1"] == 0'
refuse "nor are they learnt" 3 "the folder 'blue', but the labels that these go with have numbers and no names; expected folders called by numbers from 0" train names --init plain -o x
ok "go on from names beside" train names --init named -o more2 --epochs 1 --lr 1e-9 --optimizer sgd
all_right more2 names
ok "train on idx" train t-images-idx3-ubyte -o i "${net[@]}"
ok "train on folders that are its numbers" train bright -o b "${net[@]}"
all_right i bright
all_right b t-images-idx3-ubyte
refuse "names beside folders" 2 "--labels: names has names of its own, those of its folders; leave the option out" train names --labels file -o x "${net[@]}"

# Labels out of proportion are made compact, and shown as they are.
/usr/bin/python3 - <<'PY' || exit 1
import numpy as np
a = np.load("a.npz")
np.savez("far.npz", x=a["x"], y=np.array([7, 2000000000, 1 << 40])[a["y"]])
np.savez("below.npz", x=a["x"], y=a["y"] - 1)
np.savez("both.npz", x=a["x"], y=a["y"] * 5000000 - 1)
np.savez("exact.npz", x=a["x"], y=np.array([0, 1, (1 << 53) + 1], np.uint64)[a["y"]])
np.savez("beyond.npz", x=a["x"], y=np.array([0, 1, (1 << 63) + 1], np.uint64)[a["y"]])
PY
ok "far labels" train far.npz -o far "${net[@]}" --json
judge "in proportion to the file" 'd["peak_bytes"] < 1 << 29'
check "they are numbered anew" grep -q 'far.npz: label ids are far apart: numbered anew (3 different ones)' err
ok "the names" inspect far --labels
same "are the numbers" <(printf '%s\n' 7 2000000000 1099511627776) out
all_right far far.npz
ok "beside a model of few labels" eval plain far.npz --json
check "they are unknown" grep -q 'far.npz: [0-9]* labels that the model does not know' err
refuse "labels below 0" 3 "label -1 of row 0, expected 0 to " train below.npz -o x "${net[@]}"
refuse "beside ones that are far apart, too" 3 "label -1 of row 0, expected 0 to " train both.npz -o x "${net[@]}"
refuse "labels beyond 2^63" 3 "of row 2, expected 0 to " train beyond.npz -o x "${net[@]}"
ok "labels beyond 2^53" train exact.npz -o exact "${net[@]}"
ok "their names" inspect exact --labels
same "are exact" <(printf '%s\n' 0 1 9007199254740993) out

# Within a folder all pictures count, in whatever folder they are; one without any is no label.
ok "folders within folders" convert deep deep.txt
same "the rows of the plain folder" <(sort x.txt) <(sort deep.txt)
ln -s .. deep/red/up
ok "a link that leads back" convert deep deep.txt
same "is not followed" <(sort x.txt) <(sort deep.txt)
check "labels that are splits, perhaps" grep -q "deep: all pictures lie in folders within 'blue' and its like, which are the labels; if the inner folders are, name one of the outer ones: deep/blue" err
check "and what was left out" grep -q 'deep: 1 folder without pictures was left out: no label' err
ok "16 bits" convert wide wide.txt
same "are those of 8" x.txt wide.txt
refuse "no labels to learn from" 3 "none of the 30 rows has a label" train names/red -o x "${net[@]}"
end
