#!/usr/bin/env python3
"""Reads a model file the way any safetensors user would: own code, numpy only.

    python3 tests/golden/safetensors_reader.py FILE [NAME=SUM ...]

Checks that the tensors lie end to end and 64-byte aligned (pads and __integrity__ need not be),
prints a JSON summary (metadata; name, dtype, shape, sum and first values per tensor), and
fails when a tensor's sum is not the one given.
"""
import json
import struct
import sys

import numpy as np

TYPES = {"U8": np.uint8, "I8": np.int8, "I32": np.int32, "I64": np.int64, "F32": np.float32}


def read(path):
    """-> metadata, {name: array} in file order"""
    with open(path, "rb") as f:
        raw = f.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length].decode("utf-8"))
    data = raw[8 + length :]
    metadata = header.pop("__metadata__", {})
    tensors, at = {}, 0
    for name, t in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        assert begin == at, f"{name} begins at {begin}, expected {at}"
        array = np.frombuffer(data[begin:end], TYPES[t["dtype"]]).reshape(t["shape"])
        if not name.startswith("__"):
            assert (8 + length + begin) % 64 == 0, f"{name} is not aligned"
        tensors[name] = array
        at = end
    assert at == len(data), f"tensors end at {at}, the data at {len(data)}"
    assert list(tensors)[-1] == "__integrity__"
    return metadata, tensors


def main():
    metadata, tensors = read(sys.argv[1])
    assert all(isinstance(v, str) for v in metadata.values())
    summary = {"metadata": metadata, "tensors": []}
    for name, a in tensors.items():
        first = [v.item() for v in a.ravel()[:4]]
        total = a.sum(dtype=np.float64 if a.dtype == np.float32 else np.int64).item()
        summary["tensors"].append(
            {"name": name, "dtype": str(a.dtype), "shape": list(a.shape), "sum": total, "first": first}
        )
    print(json.dumps(summary))
    sums = {t["name"]: t["sum"] for t in summary["tensors"]}
    for name, value in (arg.rsplit("=", 1) for arg in sys.argv[2:]):
        if name not in sums or abs(sums[name] - float(value)) > 1e-9 * max(1, abs(float(value))):
            sys.exit(f"{name}: the sum is {sums.get(name)}, expected {value}")


if __name__ == "__main__":
    main()
