#!/usr/bin/env bash
# Images: arrays of numpy, CIFAR records and folders of files give the same rows, train, resume, predict; other images are refused.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
/usr/bin/python3 - <<'PY' || exit 1
import numpy as np
r = np.random.default_rng(1)
y = r.integers(0, 4, 400)
x = r.integers(0, 200, (400, 32, 32, 3), dtype=np.uint8)
x[y == 1] //= 2
x[y == 2, :, :, 0] = 0
x[y == 3, :8] = 255
first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
np.savez("a.npz", x=x, y=y)
np.savez_compressed("b.npz", pictures=first, classes=y.astype(np.uint8))
np.save("c.npy", x)
np.save("c.y.npy", y)
np.save("f.npy", (first / 255).astype(np.float32))
np.save("f.y.npy", y)
np.savez("two.npz", x_train=x, x_test=x, y=y)
np.save("small.npy", first[:, :, :30])
np.save("small.y.npy", y)
np.save("grey.npy", x[:, :, :, 0])
with open("d.bin", "wb") as o:
    for i in range(400): o.write(bytes([y[i]]) + first[i].tobytes())
PY
for f in a.npz b.npz c.npy f.npy d.bin; do ok "convert $f" convert "$f" "$f.txt"; done
for f in b.npz c.npy; do same "$f has the rows of a.npz" a.npz.txt "$f.txt"; done
same "CIFAR records, but for the number of labels" <(sed 1d a.npz.txt) <(sed 1d d.bin.txt)
check "floats are as good as bytes" /usr/bin/python3 -c '
a, b = (open(f).read().split() for f in ("a.npz.txt", "f.npy.txt"))
assert len(a) == len(b) and all(p.split(":")[0] == q.split(":")[0] for p, q in zip(a, b))'
/usr/bin/python3 - <<'PY' || exit 1
import numpy as np
a = np.load("a.npz")
np.savez("big.npz", x=a["x"].astype(">f4"), y=a["y"])
np.savez("objects.npz", x=a["x"], y=a["y"].astype(object))
PY
refuse "floats of the other byte order" 3 "big.npz: array 'x': its npy header is not one this program reads .little-endian" convert big.npz x.txt
ok "labels that are objects" convert objects.npz x.txt
check "are none, and why" grep -q "objects.npz: no labels: no array of (n) numbers; one cannot be read: array 'y': " err
refuse "several arrays of images" 3 "several arrays of images, 'x_train.npy' and 'x_test.npy'" convert two.npz x.txt

net=(--net "image pad=2 flip=yes, flatten, dense 16, relu" --epochs 3)
ok "train" train d.bin -o m "${net[@]}" --threads 1
check "the plan says what images there are" grep -qE '^images +3 x 32 x 32 \(channels x height x width\); values 0\.[0-9]+ \+- 0\.[0-9]+, .*; moved by up to 2 pixels; half of them mirrored$' err
ok "train with smoothed targets" train d.bin -o smooth "${net[@]}" --smoothing 0.1
check "the plan says so" grep -qE '^training .*, weight decay 0.0005, smoothing 0.1, ' err
ok "inspect the smoothed model" inspect smooth --json
judge "the model says so" 'd["card"]["smoothing"] == 0.1'
ok "eval the smoothed model" eval smooth a.npz --json
judge "far above chance with smoothed targets" 'd["p@1"] > 60'
ok "targets that are not smoothed" train d.bin -o plain "${net[@]}" --smoothing 0 --threads 1
same "are those of the default" <("$wisp" predict m c.npy) <("$wisp" predict plain c.npy)
refuse "smoothed targets of another loss" 2 "--smoothing: the bce loss has no smoothed targets; use --loss softmax or --smoothing 0" train d.bin -o x "${net[@]}" --smoothing 0.1 --loss bce
refuse "the same, said by the net" 2 "--smoothing: the bce loss has no smoothed targets" train d.bin -o x --net "image, flatten, dense 4, output loss=bce" --smoothing 0.1
refuse "smoothed targets of some labels" 2 "--smoothing: --sampling random computes some of the labels" train d.bin -o x "${net[@]}" --smoothing 0.1 --sampling random
refuse "no share" 2 "--smoothing: 1 is not in -1..0.9" train d.bin -o x "${net[@]}" --smoothing 1
ok "train with two threads" train d.bin -o m2 "${net[@]}" --threads 2
same "the same bytes" m m2
ok "train within a limit of memory" train d.bin -o m3 "${net[@]}" --memory 1M
ok "eval, of another format" eval m a.npz --json
judge "far above chance" 'd["p@1"] > 60'
ok "inspect" inspect m
check "the model says what it reads" grep -qE '^image +3 x 32 x 32$' out
ok "predict" predict m c.npy
check "one line per image" [ "$(wc -l <out)" = 400 ]
refuse "images of another size" 3 "small.npy: images of 3 x 30 x 32 \(channels x height x width\); expected 3 x 32 x 32; resize them, or train with 'image size=32x32', which does so when files are read" predict m small.npy
seq 4000 >names
refuse "more names than pixels" 2 "images of 3072 pixels, but --vocab or --init has 4000 features" train d.bin -o x "${net[@]}" --vocab names
refuse "the same to validate on" 2 "--valid: images of 3 x 30 x 32 .*, but those to train on are 3 x 32 x 32; resize them, or train with 'image size=32x32'" train d.bin -o x "${net[@]}" --valid small.npy

# 'image size=': images of any size become those of the net.
sized=(--net "image size=8x12, flatten, dense 16, relu" --epochs 3)
for f in a.npz c.npy d.bin f.npy small.npy; do ok "train on $f of a size" train "$f" -o "s-$f" "${sized[@]}" --threads 1; done
check "the plan says the size" grep -qE '^images +3 x 8 x 12 ' err
same "channels first and last are resized alike" <("$wisp" predict s-a.npz c.npy) <("$wisp" predict s-c.npy b.npz)
same "records, too" <("$wisp" predict s-a.npz c.npy) <("$wisp" predict s-a.npz d.bin)
check "floats nearly so" /usr/bin/python3 -c '
import subprocess, sys
def scores(m): return [[p.split(":") for p in l.split()] for l in subprocess.run([sys.argv[1], "predict", m, "c.npy"], capture_output=True, text=True, check=True).stdout.splitlines()]
a, b = ([{k: float(v) for k, v in row} for row in scores(m)] for m in ("s-a.npz", "s-f.npy"))
assert len(a) == 400 and sum(abs(p["0"] - q["0"]) for p, q in zip(a, b)) / 400 < 0.05' "$wisp"
ok "train with two threads" train d.bin -o s2 "${sized[@]}" --threads 2
same "the same bytes" s-d.bin s2
ok "train within a limit of memory" train d.bin -o s3 "${sized[@]}" --memory 1M
ok "validated on another size" train d.bin -o s4 "${sized[@]}" --valid f.npy
ok "predict another size" predict s-d.bin small.npy
check "one line for each" [ "$(wc -l <out)" = 400 ]
ok "go on with another size" train small.npy -o s5 --init s-d.bin --epochs 1
refuse "another number of channels" 3 "grey.npy: images of 1 x 8 x 12 \(channels x height x width\); expected 3 x 8 x 12$" predict s-d.bin grey.npy
refuse "no size" 2 "'image' needs size: HEIGHTxWIDTH or one number for both, from 1 to 4095; found '0'" train d.bin -o x --net "image size=0, flatten, dense 4"
refuse "rows that are no images" 3 "rows that are no images; expected images of 3 x 32 x 32" predict m a.npz.txt
refuse "a net of images on other rows" 2 "'image' reads images" train a.npz.txt -o x --net "image, flatten, dense 4"

# Large images are scored in pieces, so that values of 256 of them need not be there at once.
pieces=(--net "image size=128, conv 32 3, relu, maxpool 4 stride=8, flatten" --epochs 1 --batch 8 --threads 1)
/usr/bin/python3 -c '
import numpy as np
a = np.load("a.npz")
np.savez("few.npz", x=a["x"][:41], y=a["y"][:41])
for i in range(41): np.save("one%d.npy" % i, a["x"][i:i + 1])' || exit 1
ok "train on large images" train few.npz -o large "${pieces[@]}" --valid few.npz
ok "the plan of prediction" inspect large --plan --json
judge "is of some of them" '0 < d["prediction"]["arena_bytes"] < 64 << 20'
ok "predict all" predict large few.npz
cp out all
for i in 0 15 16 31 32 40; do "$wisp" predict large "one$i.npy" 2>/dev/null; done >each
same "each by itself" <(sed -n '1p;16p;17p;32p;33p;41p' all) each
ok "eval" eval large few.npz --json
cp out eval.json
ok "train for the same" train few.npz -o same "${pieces[@]}" --valid few.npz --json
check "P@1 of validation is that of eval" /usr/bin/python3 -c '
import json
a, b = (json.loads(open(f).read().splitlines()[-1]) for f in ("eval.json", "out"))
assert abs(a["p@1"] - b["valid_p@1"]) < 1e-6, (a["p@1"], b["valid_p@1"])'

# A run that is stopped between two steps goes on to the same bytes: images are moved by row and epoch alone.
long=(--net "image pad=2 flip=yes, flatten, dense 16, relu" --epochs 4 --batch 4 --checkpoint-steps 7)
ok "train to the end" train d.bin -o whole "${long[@]}"
"$wisp" train d.bin -o half "${long[@]}" >out 2>err </dev/null &
pid=$!
for _ in $(seq 200); do
    [ -s half.state ] && break
    sleep 0.02
done
kill -INT $pid
wait $pid
rc=$?
check "it was stopped" [ $rc = 130 ]
ok "the rest" train d.bin -o half "${long[@]}" --resume
same "resumed" whole half

# Folders of PNG files: the same pixels, labels by name.
/usr/bin/python3 - <<'PY' || exit 1
import os, struct, zlib
import numpy as np
a = np.load("a.npz")
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for i, (x, y) in enumerate(zip(a["x"], a["y"])):
    os.makedirs("photos/class%d" % y, exist_ok=True)
    raw = b"".join(b"\0" + row.tobytes() for row in x)
    with open("photos/class%d/%03d.png" % (y, i), "wb") as o:
        o.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
PY
run convert photos photos.txt
if [ $rc = 3 ] && grep -q 'libpng16.so.16 is not there' err; then
    skip "folders of PNG files" "no libpng"
    end
    exit
fi
ok "convert a folder" convert photos photos.txt
check "the rows of a.npz, in another order" cmp <(sed 1d a.npz.txt | sort) <(sed 1d photos.txt | sort)
same "names of labels" <(printf 'class%d\n' 0 1 2 3) photos.txt.labels.txt
ok "train on a folder" train photos -o p "${net[@]}" --valid photos
ok "eval" eval p photos --json
judge "as good as the arrays" 'd["p@1"] > 60'
first=$(find photos/class2 -name '*.png' | sort | head -n 1)
ok "predict a file" predict p "$first"
check "one line, of names" grep -qE '^class[0-3]:[0-9.]+ class' out
check "and no more" [ "$(wc -l <out)" = 1 ]
ok "predict a folder without labels" predict p photos/class1
check "a line for each" [ "$(wc -l <out)" = "$(find photos/class1 -name '*.png' | wc -l)" ]
ok "train on a folder, of a size" train photos -o ps "${sized[@]}"
ok "predict a file of another size" predict ps "$first"
check "one line" [ "$(wc -l <out)" = 1 ]
head -c 500 "$first" >photos/class0/cut.png
refuse "a file that is cut" 3 "photos/class0/cut.png: " train photos -o x "${net[@]}"
rm photos/class0/cut.png
cp "$first" photos/alone.png
refuse "a file beside folders" 3 "photos/alone.png: a picture beside folders of pictures has no label" train photos -o x "${net[@]}"
end
