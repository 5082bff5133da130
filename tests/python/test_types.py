"""What a type checker says of programs that use the package as it is installed, with the stub of its keywords: the README's
example, and typed.py under --strict.  Needs mypy."""
import shutil
import tempfile

from rig import *

mypy = [sys.executable, "-m", "mypy"]
if subprocess.run([*mypy, "--version"], capture_output=True).returncode:
    mypy = [shutil.which("mypy") or ""]
if not mypy[0]:
    skip_all("mypy is not installed: pip install mypy")

with tempfile.TemporaryDirectory() as folder:
    package = os.path.join(folder, "site", "wisp")
    shutil.copytree(os.path.join(root, "python", "wisp"), package, ignore=shutil.ignore_patterns("__pycache__"))
    stub = subprocess.run([sys.executable, os.path.join(root, "tools/python-stub"), os.environ["WISP_LIBRARY"]],
                          capture_output=True, text=True, check=True).stdout
    with open(os.path.join(package, "classifier.pyi"), "w") as f:
        f.write(stub)

    def says(program, *flags):
        """What is wrong with a program; '' for nothing."""
        run = subprocess.run([*mypy, "--cache-dir", os.path.join(folder, "cache"), "--follow-imports=silent",
                              "--ignore-missing-imports", "--python-executable", sys.executable, *flags, program],
                             capture_output=True, text=True, cwd=folder,
                             env={**os.environ, "MYPYPATH": os.path.join(folder, "site")})
        return "" if run.returncode == 0 else run.stdout + run.stderr

    for page in ("README.md",):
        with open(os.path.join(root, page)) as f:
            blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
        at = os.path.join(folder, "example.py")
        with open(at, "w") as f:
            f.write("\n".join(blocks))
        why = says(at)
        check(f"{page}: {len(blocks)} examples", blocks and not why, why)
    why = says(os.path.join(root, "tests/python/typed.py"), "--strict")
    check("typed.py, strictly", not why, why)
    wrong = os.path.join(folder, "wrong.py")
    for name, line in (("a value of a wrong type", "wisp.WispClassifier(epochs=[1.5])"),
                       ("a keyword that is not there", "wisp.WispClassifier(epoch=1)"),
                       ("a result of another type", "x: int = wisp.WispClassifier().predict_top(1)")):
        with open(wrong, "w") as f:
            f.write(f"import wisp\n{line}\n")
        check(f"it sees {name}", "wrong.py:2: error" in says(wrong), says(wrong))
end()
