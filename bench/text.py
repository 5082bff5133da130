"""bench/text.py rows SET FOLDER OUT: the raw text of a set as '__label__' lines, OUT_train.txt and OUT_test.txt.
bench/text.py pipe WISP MODEL LINES: microseconds for one line at a time through 'wisp predict MODEL -', and through 'cat'."""
import subprocess
import sys
import time


def rows(name, folder, out):
    def lines(what):
        with open(f"{folder}/{name}_{what}.txt", encoding="utf-8") as f:
            return f.read().split("\n")[:-1]

    labels = [line.split("\t")[-1].replace(" ", "_") for line in lines("labels")]
    for part in ("train", "test"):
        with open(f"{out}_{part}.txt", "w", encoding="utf-8") as f:
            for row, text in zip(lines(part)[1:], lines(part + "_raw")):
                ids = row.split(" ")[0]
                marks = [] if not ids or ":" in ids else ["__label__" + labels[int(i)] for i in ids.split(",")]
                f.write(" ".join(marks + [text]) + "\n")


def median_us(command, lines):
    """Without a buffer 'readline' would ask the system for one byte at a time."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        times = []
        for line in lines:
            began = time.perf_counter()
            p.stdin.write(line)
            p.stdin.flush()
            p.stdout.readline()
            times.append(time.perf_counter() - began)
        p.stdin.close()
        p.stdout.read()
    return 1e6 * sorted(times)[len(times) // 2]


def pipe(wisp, model, path):
    with open(path, "rb") as f:
        lines = [line for line in f if line.strip()][:3000]
    ours, floor = median_us([wisp, "predict", model, "-", "--threads", "1"], lines), median_us(["cat", "-u"], lines)
    print(f"pipe, one line at a time: {ours:.1f} us median; cat {floor:.1f}; {len(lines)} lines")


if __name__ == "__main__":
    {"rows": rows, "pipe": pipe}[sys.argv[1]](*sys.argv[2:])
