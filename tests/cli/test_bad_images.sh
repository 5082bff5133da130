#!/usr/bin/env bash
# Bad input for nets of images: each ends with its exit code and one line that names the place, and leaves nothing behind.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
/usr/bin/python3 - "$root/tests/pictures.h" <<'PY' || exit 1
import json, os, re, struct, sys
import numpy as np
r = np.random.default_rng(1)
x = r.integers(0, 256, (24, 3, 32, 32), dtype=np.uint8)
y = (np.arange(24) % 3).astype(np.uint8)
with open("c.bin", "wb") as o:
    for i in range(24): o.write(bytes([y[i]]) + x[i].tobytes())
np.save("a.npy", x), np.save("a.y.npy", y)
np.savez("z.npz", x=x, y=y)
np.savez_compressed("p.npz", x=x, y=y)
open("i-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 24, 32, 32) + x[:, 0].tobytes())
open("i-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, 24) + y.tobytes())
pictures = dict(re.findall(r"(picture_\w+)\[\] = \{([^}]*)\}", open(sys.argv[1]).read()))
for name, data in pictures.items():
    open(name.replace("picture_", "").replace("_", "."), "wb").write(bytes(int(n) for n in data.split(",") if n.strip()))
os.makedirs("photos/one"), os.makedirs("photos/two")
for to in ("one/1", "two/2"): open("photos/%s.jpg" % to, "wb").write(open("colour.jpeg", "rb").read())
# claims that are not true
open("far-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 2**31 - 1, 60000, 60000) + bytes(100))
open("none-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 0, 28, 28))
def npy(name, descr, shape, data):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)).ljust(117) + "\n"
    open(name, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data)
npy("far.npy", "|u1", "(4611686018427387904, 4, 4, 4)", bytes(64))
npy("flat.npy", "|u1", "(4, 4)", bytes(16))
npy("words.npy", "<U1", "(1, 2, 2)", bytes(16))
npy("nan.npy", "<f4", "(1, 1, 2, 2)", struct.pack("<4f", 1, float("nan"), 0, 0))
np.save("fewer.npy", x), np.save("fewer.y.npy", y[:-1])
np.save("below.npy", x), np.save("below.y.npy", y.astype(np.int64) - 5)
labels = bytearray(open("c.bin", "rb").read())
labels[3073 * 5] = 77
open("label.bin", "wb").write(labels)
PY
net=(--net "image, conv 8 3, relu, flatten" --epochs 1 --threads 1)
ok "a model of images" train c.bin -o model "${net[@]}"
ok "its weights for PyTorch" convert model weights.safetensors

# wrong NAME CODE WORDS ARGS...: as refuse; one line of error, and no file of the name 'no'
wrong() {
    refuse "$@"
    check "$1: one line of error" test "$(grep -c '^wisp' err)" = 1 -a "$(tail -n 1 err | grep -c '^wisp')" = 1
    check "$1: nothing was written" test ! -e no
    rm -rf no no.*
}

# ---- shapes that do not fit ----
say() { wrong "$1" 2 "$2" train c.bin -o no --net "$3" --epochs 1; }
say "a kernel that is larger" "'conv' has a kernel of 40x40, larger than what it reads, 3 x 32 x 32" "image, conv 4 40 pad=0"
say "images as units" "'dense' takes units, found .*'flatten' makes units of them" "image, conv 4 3, dense 8"
say "units as images" "'conv' takes images?, found|'conv'.*units" "image, flatten, conv 4 3"
say "channels that groups do not divide" "groups" "image, conv 4 3 groups=2"
say "a sum of different shapes" "'add'.*4 x 32 x 32.*8 x 32 x 32|'add'.*8 x 32 x 32.*4 x 32 x 32" "image, conv 4 3 as a, conv 8 3, add a, flatten"
say "joined images of different sizes" "'concat'.*32 x 32.*16 x 16|'concat'.*16 x 16.*32 x 32" "image, conv 4 3 as a, maxpool 2, concat a, flatten"
say "two images" "a net has one 'image'" "image as a, from rows, image, concat a, flatten"
say "moved out of sight" "pad=32 moves images of 32 x 32 pixels out of sight" "image pad=32, flatten"
say "pooled away" "larger than what it reads" "image, maxpool 2, maxpool 2, maxpool 2, maxpool 2, maxpool 2, maxpool 2, flatten"
wrong "a preset for larger images" 2 "nets/vgg16.net:[0-9]+:1: 'maxpool' has a kernel of 2x2, larger than what it reads|nets/alexnet.net" train c.bin -o no --net alexnet
wrong "rows that are no images" 3 "rows that are no images; expected images of 3 x 32 x 32" predict model <(printf '0 1:1\n')
wrong "images of another size" 3 "i-images-idx3-ubyte: images of 1 x 32 x 32 .*; expected 3 x 32 x 32" predict model i-images-idx3-ubyte
wrong "another size to validate on" 2 "'image size=32x32'|but those to train on are 3 x 32 x 32" train c.bin -o no "${net[@]}" --valid i-images-idx3-ubyte

# ---- files that are cut: at their beginning, in the middle, before their end ----
for file in c.bin a.npy z.npz p.npz i-images-idx3-ubyte photos/one/1.jpg colour.png grey.png model weights.safetensors; do
    bytes=$(stat -c %s "$file")
    for n in 0 1 17 $((bytes / 2 + 1)) $((bytes - 20)); do
        name=cut-images-idx3-ubyte
        case $file in i-*) ;; photos/*) name=cut.jpg ;; *) name=cut.${file##*.} ;; esac
        head -c "$n" "$file" >"$name"
        case $file in
            model) wrong "$file, $n bytes" 4 "^wisp: cut.model: " predict "$name" c.bin ;;
            weights.*) wrong "$file, $n bytes" $((n < 8 ? 2 : 4)) "^wisp: (cut.safetensors: |--net is about weights .*; here cut.safetensors is a model that becomes another one)" convert "$name" no --net "${net[1]}" --image 3x32x32 --mean 0.5,0.5,0.5 --std 1,1,1 ;;
            *) wrong "$file, $n bytes" 3 "^wisp: $name(:1)?: " train "$name" -o no "${net[@]}" ;;
        esac
        rm -f "$name"
    done
done

# ---- files that lie ----
lies() { wrong "$1" "$2" "$3" train "$4" -o no "${net[@]}"; }
lies "idx: more images than any memory" 3 "far-images-idx3-ubyte: " far-images-idx3-ubyte
lies "idx: no images" 3 "none-images-idx3-ubyte: 0 images of 28 x 28 pixels; expected at least one" none-images-idx3-ubyte
lies "npy: a shape that overflows" 3 "far.npy: array 'images'" far.npy
lies "npy: two dimensions" 3 "flat.npy: array 'images'.*expected images" flat.npy
lies "npy: words" 3 "words.npy: array 'images'" words.npy
lies "npy: no number" 3 "nan.npy: array 'images': nan in row 0, expected a finite float32" nan.npy
lies "npy: fewer labels" 3 "fewer.y.npy: array 'labels': 23 labels for 24 images" fewer.npy
lies "npy: labels below 0" 3 "below.y.npy: array 'labels': label -5 of row 0, expected 0 to" below.npy
wrong "CIFAR: a label of 77" 3 "label.bin: record 5 has the label 77; expected 0 to 9" train label.bin --format cifar -o no "${net[@]}"
mkdir -p four/x && cp cmyk.jpeg four/x/1.jpg
lies "a JPEG file of four colours" 3 "four/x/1.jpg: a JPEG file of four colours \(CMYK\)" four
mkdir -p gif/x && printf GIF89a >gif/x/1.png
lies "another kind of picture" 3 "gif/x/1.png: no picture: expected a JPEG or PNG file" gif

# ---- libraries that are not there ----
mkdir broken
: >broken/libturbojpeg.so.0
: >broken/libpng16.so.16
LD_LIBRARY_PATH=$PWD/broken wrong "no libturbojpeg" 2 "photos/one/1.jpg: a JPEG file, but libturbojpeg.so.0 is not there, which reads them; install it \(Debian: apt-get install libturbojpeg0\)" \
    train photos -o no "${net[@]}"
LD_LIBRARY_PATH=$PWD/broken wrong "no libpng" 2 "colour.png: a PNG file, but libpng16.so.16 is not there, which reads them; install it \(Debian: apt-get install libpng16-16\)" \
    predict model colour.png
WISP_CONV=dnnl-none wrong "no such way to convolve" 2 "WISP_CONV: no way 'dnnl-none' to compute convolutions; 'wisp info' lists them" train c.bin -o no "${net[@]}"
CUDA_VISIBLE_DEVICES="" wrong "no card" 2 "--device cuda: " train c.bin -o no "${net[@]}" --device cuda
end
