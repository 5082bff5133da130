"""Files of weights for tests/cli/test_exchange.sh, and what a plain program computes with them; the standard library alone.

    make TYPE WEIGHTS IMAGES LOGITS   random weights by PyTorch's names, images, and their logits (ImageNet's mean and deviation)
    compare LOGITS ANSWERS NAME...    are the answers of 'wisp predict' the softmax of the logits?
    same, shapes A B                  have two files the same tensors; the same shapes?
    near A B PREFIX...                the same numbers, but for rounding, and tensors with a PREFIX in their name
    change FROM TO CHANGE...          drop NAME, add NAME N, shape NAME N,N, type NAME TYPE, put NAME VALUE, meta KEY VALUE
    data NAME                         NAME.npz: images with labels 0 to 3
"""
import io, json, math, random, struct, sys, zipfile

C, H, W, LABELS = 3, 9, 8, 3
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4}


def pack(kind, numbers):
    if kind == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in numbers)
    return struct.pack("<%d%s" % (len(numbers), {"F32": "f", "F16": "e", "I64": "q", "I32": "i"}[kind]),
                       *(int(x) if kind[0] == "I" else x for x in numbers))


def unpack(kind, data):
    if kind == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack("<%d%s" % (len(data) // SIZES[kind], {"F32": "f", "F16": "e", "I64": "q", "I32": "i"}[kind]), data))


def write(path, tensors, meta):
    """tensors: name -> (type, shape, bytes); the header is not padded, so that nothing is aligned."""
    header, at = {"__metadata__": meta}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (len(text) % 2)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in header.items()}, meta


SHAPES = {"conv1.weight": [5, 3, 3, 3], "layer1.0.bn1.weight": [5], "layer1.0.bn1.bias": [5], "layer1.0.bn1.running_mean": [5],
          "layer1.0.bn1.running_var": [5], "layer1.0.bn1.num_batches_tracked": [], "features.3.weight": [4, 5, 3, 3],
          "features.3.bias": [4], "classifier.0.weight": [7, 16], "classifier.0.bias": [7], "classifier.2.weight": [LABELS, 7],
          "classifier.2.bias": [LABELS]}


def conv(x, w, shape, bias, stride):
    out, cin, k, _ = shape
    h, wd = len(x[0]), len(x[0][0])
    at = lambda c, y, z: x[c][y][z] if 0 <= y < h and 0 <= z < wd else 0.0
    return [[[bias[o] + sum(w[((o * cin + c) * k + i) * k + j] * at(c, y + i - 1, z + j - 1)
                            for c in range(cin) for i in range(k) for j in range(k))
              for z in range(0, wd, stride)] for y in range(0, h, stride)] for o in range(out)]


def relu(x):
    return max(x, 0.0) if isinstance(x, float) else [relu(v) for v in x]


def linear(x, w, b):
    return [b[o] + sum(w[o * len(x) + i] * v for i, v in enumerate(x)) for o in range(len(b))]


def forward(t, image):
    x = [[[(image[(c * H + y) * W + z] / 255 - MEAN[c]) / STD[c] for z in range(W)] for y in range(H)] for c in range(C)]
    x = conv(x, t["conv1.weight"], SHAPES["conv1.weight"], [0.0] * 5, 1)
    bn = [t["layer1.0.bn1." + k] for k in ("weight", "bias", "running_mean", "running_var")]
    x = relu([[[(v - m) / math.sqrt(s + 1e-5) * g + b for v in row] for row in plane] for plane, g, b, m, s in zip(x, *bn)])
    x = [[[max(p[2 * y + i][2 * z + j] for i in (0, 1) for j in (0, 1)) for z in range(W // 2)] for y in range(H // 2)] for p in x]
    x = relu(conv(x, t["features.3.weight"], SHAPES["features.3.weight"], t["features.3.bias"], 2))
    flat = [v for plane in x for row in plane for v in row]
    return linear(relu(linear(flat, t["classifier.0.weight"], t["classifier.0.bias"])), t["classifier.2.weight"], t["classifier.2.bias"])


def npy(kind, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (kind, "".join("%d, " % n for n in shape))
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data


def make(kind, weights, images, logits):
    r = random.Random(kind)
    tensors, numbers = {}, {}
    for name, shape in SHAPES.items():
        n = math.prod(shape)
        if not shape:
            tensors[name] = ("I64", [], pack("I64", [7]))
            continue
        x = [r.uniform(0.5, 1.5) if "var" in name else r.gauss(0, 0.4) for _ in range(n)]
        tensors[name] = (kind, shape, pack(kind, x))
        numbers[name] = unpack(kind, tensors[name][2])
    write(weights, tensors, {"format": "pt"})
    rows = [bytes(r.randrange(256) for _ in range(C * H * W)) for _ in range(6)]
    open(images, "wb").write(npy("|u1", (6, C, H, W), b"".join(rows)))
    json.dump([forward(numbers, row) for row in rows], open(logits, "w"))


def compare(logits, answers, *names):
    lines = open(answers).read().splitlines()
    want = json.load(open(logits))
    assert len(lines) == len(want), (len(lines), len(want))
    for z, line in zip(want, lines):
        norm = math.log(sum(math.exp(v) for v in z))
        got = {x["name"]: math.log(x["score"]) for x in json.loads(line)["labels"]}
        for v, name in zip(z, names):
            assert abs(got[name] - (v - norm)) < 1e-4, (name, got[name], v - norm)


def change(source, target, *words):
    tensors, meta = read(source)
    words = list(words)
    while words:
        what, name = words.pop(0), words.pop(0)
        if what == "drop":
            del tensors[name]
            continue
        value = words.pop(0)
        if what == "meta":
            meta[name] = value
        elif what == "add":
            tensors[name] = ("F32", [int(value)], bytes(4 * int(value)))
        elif what == "shape":
            tensors[name] = (tensors[name][0], [int(n) for n in value.split(",")], tensors[name][2])
        elif what == "type":
            tensors[name] = (value,) + tensors[name][1:]
        else:
            kind, shape, data = tensors[name]
            tensors[name] = (kind, shape, data[:4] + struct.pack("<f", float(value)) + data[8:])
    write(target, tensors, meta)


def same(a, b, *aside):
    (x, _), (y, _) = read(a), read(b)
    assert set(x) == set(y), set(x) ^ set(y)
    for name in x:
        if name not in aside:
            assert x[name][1] == y[name][1], (name, x[name][1], y[name][1])
            assert "num_batches" in name or x[name][2] == y[name][2], name


def near(a, b, *aside):
    (x, _), (y, _) = read(a), read(b)
    for name in x:
        if "num_batches" in name or any(p in name for p in aside):
            continue
        worst = max(abs(p - q) for p, q in zip(unpack(*x[name][::2]), unpack(*y[name][::2])))
        assert worst < 1e-5, (name, worst)


def shapes(a, b):
    (x, _), (y, _) = read(a), read(b)
    assert {k: v[1] for k, v in x.items()} == {k: v[1] for k, v in y.items()}


def data(name):
    r = random.Random(name)
    labels = [i % 4 for i in range(64)]
    x = bytes(min(255, 60 * label + r.randrange(60)) for label in labels for _ in range(C * H * W))
    with zipfile.ZipFile(name + ".npz", "w") as z:
        z.writestr("images.npy", npy("|u1", (64, C, H, W), x))
        z.writestr("labels.npy", npy("<i8", (64,), struct.pack("<64q", *labels)))


{"make": make, "compare": compare, "same": same, "near": near, "shapes": shapes, "change": change, "data": data}[sys.argv[1]](*sys.argv[2:])
