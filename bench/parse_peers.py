"""The same file through scikit-learn's svmlight reader, when it is there: MB/s."""
import os, sys, tempfile, time

try:
    from sklearn.datasets import load_svmlight_file
except ImportError:
    print("scikit-learn: not installed (pip install scikit-learn)")
    sys.exit()
path = sys.argv[1]
with tempfile.NamedTemporaryFile("wb", suffix=".svm") as f, open(path, "rb") as src:
    next(src)  # the header line is not svmlight's
    for line in src:
        f.write(b"0 " + line[1:] if line.startswith(b" ") else line)
    f.flush()
    size = os.path.getsize(f.name)
    times = []
    for _ in range(2):
        t = time.time()
        load_svmlight_file(f.name, multilabel=True, zero_based=True)
        times.append(time.time() - t)
print(f"scikit-learn load_svmlight_file: {size / 1e6 / min(times):.0f} MB/s ({min(times):.2f} s)")
