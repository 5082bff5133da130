"""Weights there and back between wisp and PyTorch itself, by hand or from tests/cli/test_exchange.sh:

    python tests/exchange_torch.py WISP              needs torch, safetensors and numpy; a minute
    python tests/exchange_torch.py WISP large        alexnet and vgg16 at 224 x 224 pixels, too
    python tests/exchange_torch.py names             prints tests/golden/torch_names.txt; needs torchvision
"""
import json, os, struct, subprocess, sys, tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

IMAGENET = np.float32([[[0.485]], [[0.456]], [[0.406]]]), np.float32([[[0.229]], [[0.224]], [[0.225]]])


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride > 1 else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet18(nn.Module):
    def __init__(self, labels, small):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1, self.small = nn.BatchNorm2d(64), small
        for i, (a, b) in enumerate([(64, 64), (64, 128), (128, 256), (256, 512)]):
            setattr(self, f"layer{i + 1}", nn.Sequential(Block(a, b, 1 + (i > 0)), Block(b, b, 1)))
        self.fc = nn.Linear(512, labels)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = x if self.small else F.max_pool2d(x, 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


class LeNet(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, labels)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.max_pool2d(F.relu(self.conv1(x)), 2))), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def run(*args):
    done = subprocess.run([wisp, *args], capture_output=True, text=True)
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout


def logs(net, x, mean, std):
    with torch.no_grad():
        return torch.log_softmax(net.eval()(torch.tensor((x.astype(np.float32) / 255 - mean) / std)), 1).numpy()


def images(*shape):
    x = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    np.save("x.npy", x)
    return x


def compare(what, want, model):
    """Logits but for their sum: the logarithms of scores."""
    lines = run("predict", model, "x.npy", "--json", "-k", str(want.shape[1]), "--scores", "raw").splitlines()
    assert len(lines) == len(want)
    worst = max(abs(np.log(a["score"]) - z[a["label"]]) for z, line in zip(want, lines) for a in json.loads(line)["labels"])
    print(f"{what}: log p differ by {worst:.1e} at most, of a range of {want.max() - want.min():.2f}")
    assert worst < 1e-4


def to_wisp(what, name, net, size, n=3, dtype=torch.float32):
    from safetensors.torch import load_file, save_file
    with torch.no_grad():  # a net that was trained has no means of 0
        for key, b in net.named_buffers():
            if key.endswith(("mean", "var")):
                b.copy_(b + torch.rand(b.shape) - 0.4)
        for key, p in net.named_parameters():
            if p.ndim == 1:
                p.add_(torch.rand(p.shape) - 0.5)
    save_file({k: v.to(dtype) if v.is_floating_point() else v for k, v in net.state_dict().items()}, "x.safetensors")
    net.load_state_dict(load_file("x.safetensors"))
    run("convert", "x.safetensors", "m", "--net", name, "--image", "x".join(map(str, size)),
        *(() if size[0] == 3 else ("--mean", "0.13", "--std", "0.31")))
    compare(what, logs(net, images(n, *size), *(IMAGENET if size[0] == 3 else (np.float32(0.13), np.float32(0.31)))), "m")


def some_steps(net):
    best = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    for _ in range(4):
        loss = F.cross_entropy(net(torch.randn(16, 3, 32, 32)), torch.randint(0, 10, (16,)))
        best.zero_grad()
        loss.backward()
        best.step()
    return net


def to_torch():
    """A net trained by wisp, with the names that load_state_dict expects, all of them and no others."""
    from safetensors import safe_open
    from safetensors.torch import load_file
    r = np.random.default_rng(1)
    x, y = r.integers(0, 60, (400, 28, 28)), r.integers(0, 8, 400)
    for image, label in zip(x, y):
        image[:, 3 * label:3 * label + 2] = 200
    open("t-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, 400, 28, 28) + x.astype(np.uint8).tobytes())
    open("t-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, 400) + y.astype(np.uint8).tobytes())
    run("train", "t-images-idx3-ubyte", "--net", "lenet", "-o", "L", "--epochs", "2", "--quiet")
    run("convert", "L", "L.safetensors")
    net = LeNet(8)
    net.load_state_dict(load_file("L.safetensors"), strict=True)
    with safe_open("L.safetensors", "pt") as f:
        mean, std = (np.float32(f.metadata()[key]) for key in ("mean", "std"))
    compare("lenet of wisp", logs(net, images(5, 1, 28, 28), mean, std), "L")


def names():
    import torchvision
    nets = [(n, getattr(torchvision.models, n)()) for n in ("alexnet", "resnet18", "vgg16")]
    for name, net in nets + [("resnet18-cifar", ResNet18(10, True)), ("lenet", LeNet(10))]:
        for key, t in net.state_dict().items():
            print(name, key, "I64" if t.dtype == torch.int64 else "F32", *t.shape)


if sys.argv[1] == "names":
    names()
else:
    wisp = os.path.abspath(sys.argv[1])
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        to_wisp("lenet", "lenet", LeNet(10), (1, 28, 28))
        for kind in (torch.float32, torch.bfloat16, torch.float16):
            to_wisp(f"resnet18-cifar, {kind}", "resnet18-cifar", some_steps(ResNet18(10, True)), (3, 32, 32), dtype=kind)
        to_wisp("resnet18", "resnet18", ResNet18(12, False), (3, 96, 96))
        to_torch()
        for name in sys.argv[2:] and ("alexnet", "vgg16"):
            import torchvision
            to_wisp(name, name, getattr(torchvision.models, name)(num_classes=10), (3, 224, 224), 1)
        os.chdir("/")
