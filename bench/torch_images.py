#!/usr/bin/env python3
"""PyTorch's side of bench/images: five nets of images, as torchvision has them.  Needs torch alone.

    bench/torch_images.py < jobs        its version, then one JSON object per line in, one out: bench/images says what

  steps    a training step: fused SGD with momentum and weight decay, ReLU in place, cross-entropy; on a card the whole step in a
           CUDA graph.  On the CPU bf16 is autocast; batches lie in memory, so that nothing but the step is measured
  convs    steps on the CPU under PyTorch's profiler: milliseconds of a step in convolutions, forward and back, and of all of it
  conv     one convolution on the CPU, forward and the gradient of its weights, the fastest of several calls, the better of NHWC and NCHW
  memory   three steps without a graph: what the caching allocator hands out and holds, and what the process took of the card since it was
           first asked; on the CPU how much the process grew
  predict  eval and inference_mode, softmax and the five best; eager, or traced, frozen and optimised for inference
  input    torchvision's ImageFolder and DataLoader (needs torchvision): JPEG files decoded, moved, mirrored, scaled, in batches
"""
import json
import resource
import statistics
import sys
import time


def block(nn, cin, c, stride):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(cin, c, 3, stride, 1, bias=False), nn.BatchNorm2d(c)
            self.conv2, self.bn2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride > 1 or cin != c:
                self.downsample = nn.Sequential(nn.Conv2d(cin, c, 1, stride, bias=False), nn.BatchNorm2d(c))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))
    return Block()


def resnet(nn, small, labels):
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False) if small else nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers += [] if small else [nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for c, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [block(nn, cin, c, stride), block(nn, c, c, 1)]
        cin = c
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, labels))


def chain(nn, cin, plan):
    """(channels, kernel, stride, padding) with a ReLU behind, or (kernel, stride) of a pooling."""
    layers = []
    for step in plan:
        if len(step) == 2:
            layers.append(nn.MaxPool2d(*step))
        else:
            layers += [nn.Conv2d(cin, *step), nn.ReLU(True)]
            cin = step[0]
    return layers


def lenet(nn, labels):
    convs = chain(nn, 1, ((6, 5, 1, 2), (2, 2), (16, 5, 1, 0), (2, 2)))
    return nn.Sequential(*convs, nn.Flatten(), nn.Linear(400, 120), nn.ReLU(True), nn.Linear(120, 84), nn.ReLU(True), nn.Linear(84, labels))


def alexnet(nn, labels):
    convs = chain(nn, 3, ((64, 11, 4, 2), (3, 2), (192, 5, 1, 2), (3, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1), (3, 2)))
    return nn.Sequential(*convs, nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096),
                         nn.ReLU(True), nn.Linear(4096, labels))


def vgg16(nn, labels):
    plan = [step for c, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)) for step in [(c, 3, 1, 1)] * n + [(2, 2)]]
    return nn.Sequential(*chain(nn, 3, plan), nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096),
                         nn.ReLU(True), nn.Dropout(), nn.Linear(4096, labels))


NETS = {"lenet": lenet, "resnet18-cifar": lambda nn, n: resnet(nn, True, n), "alexnet": alexnet, "vgg16": vgg16,
        "resnet18": lambda nn, n: resnet(nn, False, n)}


class Job:
    """A net, a batch and a step of it."""

    def __init__(self, torch, job):
        self.torch, self.card, self.bf16 = torch, job["device"] == "cuda", job["precision"] == "bf16"
        self.format = torch.channels_last if job["layout"] == "nhwc" else torch.contiguous_format
        self.net = NETS[job["net"]](torch.nn, job["labels"]).to(job["device"]).to(memory_format=self.format)
        self.x = torch.randn(job["batch"], *job["image"], device=job["device"]).to(memory_format=self.format)
        self.y = torch.randint(job["labels"], (job["batch"],), device=job["device"])

    def train(self):
        self.net.train()
        self.sgd = self.torch.optim.SGD(self.net.parameters(), lr=1e-5, momentum=0.9, weight_decay=5e-4, fused=True)

    def step(self):
        torch = self.torch
        self.sgd.zero_grad(set_to_none=True)
        with torch.autocast("cuda" if self.card else "cpu", torch.bfloat16, enabled=self.bf16, cache_enabled=not self.card):
            loss = torch.nn.functional.cross_entropy(self.net(self.x).float(), self.y)
        loss.backward()
        self.sgd.step()


def timed(call, seconds, least):
    """Milliseconds of each call; the first one is not counted."""
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return times


def graph_of(torch, job):
    """The whole step in a CUDA graph."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(4):
            job.step()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        job.step()
    return graph


def replays(torch, graph, seconds):
    """Mean milliseconds of ever so many steps without a pause."""
    def run(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(n):
            graph.replay()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) / n
    run(3)
    n = max(5, int(50 / run(5)))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(run(n))
    return times


def steps(torch, spec):
    job = Job(torch, spec)
    job.train()
    if job.card:
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = spec["precision"] != "fp32"
        times = replays(torch, graph_of(torch, job), spec["seconds"])
    else:
        times = timed(job.step, spec["seconds"], 2)
    return {"ms_median": statistics.median(times), "ms_min": min(times), "steps": len(times)}


def convs(torch, spec):
    """Without the updates of their weights, and without the ReLUs behind them."""
    from torch.profiler import ProfilerActivity, profile
    job = Job(torch, spec)
    job.train()
    job.step()
    n, end, ms, each = 0, time.perf_counter() + spec["seconds"], [], []
    while n < 2 or time.perf_counter() < end:
        began = time.perf_counter()
        with profile(activities=[ProfilerActivity.CPU]) as p:
            job.step()
        each.append(1e3 * (time.perf_counter() - began))
        ms.append(sum(e.cpu_time_total for e in p.key_averages() if e.key in ("aten::convolution", "aten::convolution_backward")) / 1e3)
        n += 1
    return {"ms_median": statistics.median(ms), "step_ms_median": statistics.median(each), "steps": n}


def conv(torch, spec):
    kind = torch.bfloat16 if spec["precision"] == "bf16" else torch.float32
    least = {"forward": None, "weights": None}
    for layout in (torch.channels_last, torch.contiguous_format):
        x = torch.randn(spec["batch"], spec["in"], spec["pixels"], spec["pixels"]).to(kind).to(memory_format=layout)
        w = torch.randn(spec["out"], spec["in"], 3, 3).to(kind).to(memory_format=layout)
        with torch.no_grad():
            y = torch.nn.functional.conv2d(x, w, padding=1)
            calls = {"forward": lambda: torch.nn.functional.conv2d(x, w, padding=1),
                     "weights": lambda: torch.ops.aten.convolution_backward(y, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False])}
            for name, call in calls.items():
                ms = min(timed(call, spec["seconds"], 2))
                least[name] = min(ms, least[name] or ms)
    return least


def memory(torch, spec):
    card = spec["device"] == "cuda"
    if card:
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = spec["precision"] != "fp32"
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        free = torch.cuda.mem_get_info()[0]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job = Job(torch, spec)
    job.train()
    for _ in range(3):
        job.step()
    if card:
        torch.cuda.synchronize()
        return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                "taken": free - torch.cuda.mem_get_info()[0]}
    return {"grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024}


def predict(torch, spec):
    job = Job(torch, spec)
    net = job.net.eval()
    with torch.inference_mode():
        if spec["way"] == "frozen":
            net = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, job.x)))
            net(job.x)
        with torch.autocast("cpu", torch.bfloat16, enabled=job.bf16):
            times = timed(lambda: net(job.x).float().softmax(1).topk(min(5, spec["labels"])), spec["seconds"], 1)
    return {"ms_median": statistics.median(times), "ms_min": min(times), "calls": len(times)}


def jpegs(torch, spec):
    """A folder of JPEG files, smooth with some noise, in two folders of labels."""
    import os
    from PIL import Image
    side = spec["side"]
    for i in range(spec["n"]):
        folder = os.path.join(spec["path"], f"label{i % 2}")
        os.makedirs(folder, exist_ok=True)
        seed = torch.Generator().manual_seed(i)
        coarse = torch.rand(1, 3, 8, 8, generator=seed)
        x = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear") * 235 + torch.rand(1, 3, side, side, generator=seed) * 20
        Image.fromarray(x[0].permute(1, 2, 0).byte().numpy()).save(os.path.join(folder, f"{i}.jpg"), quality=90)
    return {}


def loader(torch, spec):
    from torchvision import datasets, transforms
    how = transforms.Compose([transforms.RandomCrop(spec["side"], padding=4), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                              transforms.Normalize((0.5,) * 3, (0.25,) * 3)])
    images = datasets.ImageFolder(spec["path"], how)
    batches = torch.utils.data.DataLoader(images, batch_size=spec["batch"], shuffle=True, num_workers=spec["workers"], persistent_workers=spec["workers"] > 0)
    for _ in batches:  # workers start, files come into the system's memory
        pass
    n, began = 0, time.perf_counter()
    while time.perf_counter() - began < spec["seconds"]:
        n += sum(len(y) for _, y in batches)
    return {"images_per_s": n / (time.perf_counter() - began)}


def export(torch, spec):
    """The net as ONNX, for other programs."""
    job = Job(torch, spec)
    job.net.eval()
    with torch.inference_mode():
        torch.onnx.export(job.net, (job.x,), spec["path"], input_names=["x"], output_names=["y"], dynamo=False)
    return {}


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    import torch
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    parts = {"steps": steps, "convs": convs, "conv": conv, "memory": memory, "predict": predict, "export": export, "jpegs": jpegs, "input": loader}
    for line in sys.stdin:
        spec = json.loads(line)
        if "threads" in spec:
            torch.set_num_threads(spec["threads"])
        try:
            answer = parts[spec["part"]](torch, spec)
        except Exception as e:  # a net that does not fit, or a way that is not there, leaves the others
            answer = {"error": " ".join(str(e).split())[:200] or type(e).__name__}
        if spec["device"] == "cuda":
            torch.cuda.empty_cache()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
