"""The blocks of code of README.md and docs/*.md that begin with 'sh' run as they stand, in order, in one folder per page, with
the command on the path.  What a reader brings along (a file that the text describes) is in a comment before the block:

    <!-- test
    commands that make it
    -->

Also: every link of a page to a file leads somewhere."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
wisp = os.path.abspath(sys.argv[1])
passed = failed = 0


def check(name, good, why=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL {name}: {why}", flush=True)


BLOCK = re.compile(r"^(?:```sh\n(.*?)^```|<!-- test\n(.*?)^-->)", re.S | re.M)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
n_run = 0
for page in pages:
    text, name = page.read_text(), page.relative_to(root)
    for m in LINK.finditer(re.sub(r"^```.*?^```", lambda c: "\n" * c[0].count("\n"), text, flags=re.S | re.M)):
        check(f"{name}: a link to {m[1]}", (page.parent / m[1]).exists(), "there is no such file")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HOME": folder, "PATH": os.path.dirname(wisp) + os.pathsep + os.environ["PATH"]}
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            said = subprocess.run(["bash", "-euo", "pipefail", "-c", block[1] or block[2]], cwd=folder, env=env, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL)
            n_run += 1
            check(f"{name}:{line}", said.returncode == 0, f"exit code {said.returncode}\n{said.stdout[-300:]}{said.stderr[-700:]}")
check("there are blocks to run", n_run > 4)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
