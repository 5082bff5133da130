"""The wheel: for this platform, with a tag that says so, and the command in it.  WISP_WHEEL names one (bench/python/check does);
else it is built here, which needs pip and a setuptools that makes wheels itself, and the plain build folder."""
import glob
import platform
import tempfile
import zipfile

from rig import *

folder = tempfile.TemporaryDirectory()
wheel = os.environ.get("WISP_WHEEL")
if not wheel:
    import importlib.metadata

    try:
        version = importlib.metadata.version("setuptools")
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as e:
        skip_all(f"no {e} for {sys.executable}: no wheel can be built")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (70, 1):
        skip_all(f"setuptools {version} makes no wheels by itself: 70.1 or newer does")
    if build != os.path.join(root, "build"):
        skip_all(f"wheels are made of build/, not of {build}")
    made = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder.name, root],
                          capture_output=True, text=True, env={**os.environ, "CUDA": "0", "MPI": "0"})
    wheel = (glob.glob(os.path.join(folder.name, "*.whl")) or [""])[0]
    check("pip wheel", wheel, made.stdout[-500:] + made.stderr[-500:])
    if not wheel:
        end()

names = zipfile.ZipFile(wheel).namelist()
check("everything lies in the package", "wisp/lib/libwisp.so" in names and "wisp/bin/wisp" in names and
      "wisp/classifier.pyi" in names and "wisp/py.typed" in names and not any("purelib" in n for n in names), names)
tag = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_(\w+)\.whl$", wheel)
check("a tag that names glibc and the machine", tag and tag[3] == platform.machine(), wheel)
with tempfile.TemporaryDirectory() as place:
    with zipfile.ZipFile(wheel) as z:
        z.extractall(place)
    programs = [os.path.join(place, n) for n in names if n.startswith(("wisp/bin/", "wisp/lib/"))]
    symbols = subprocess.run(["objdump", "-T", *programs], capture_output=True, text=True).stdout
    need = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", symbols))
    check("which is the newest that its programs ask for", tag and need == (int(tag[1]), int(tag[2])), (need, wheel))
try:
    import auditwheel  # noqa: F401

    said = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    check("auditwheel says the same", "consistent with the following platform tag: \"%s\"" % wheel.split("-none-")[1][:-4] in
          " ".join(said.stdout.split()), said.stdout + said.stderr)
except ImportError:
    skip("auditwheel is not installed: its word on the tag")

with tempfile.TemporaryDirectory() as place:
    said = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, wheel],
                          capture_output=True, text=True)
    check("pip install", said.returncode == 0, said.stderr)
    there = {k: v for k, v in os.environ.items() if k not in ("WISP_LIBRARY", "LD_PRELOAD")}
    there["PYTHONPATH"] = place
    for name, command in (("wisp", [os.path.join(place, "bin", "wisp")]), ("python -m wisp", [sys.executable, "-m", "wisp"])):
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, env=there, cwd=place)
        check(f"{name} --version", said.returncode == 0 and wisp.__version__ in said.stdout, said.stdout + said.stderr)
    said = subprocess.run([os.path.join(place, "bin", "wisp"), "predict", "nowhere", "-"], capture_output=True, text=True, env=there)
    check("arguments and exit codes pass", said.returncode not in (0, 1) and "nowhere" in said.stderr, (said.returncode, said.stderr))
    said = subprocess.run([sys.executable, "-c", "import wisp; print(wisp.info()['library'])"], capture_output=True, text=True,
                          env=there, cwd=place)
    check("the package uses the library in it", said.stdout.strip() == os.path.join(place, "wisp", "lib", "libwisp.so"),
          said.stdout + said.stderr)
end()
