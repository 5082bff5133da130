"""The wheel: for this platform, with a tag that says so, and the command in it.  WISP_WHEEL names one (bench/python/check does);
else tools/wheel builds it, which needs pip, a setuptools that is new enough or the network, and the plain build folder."""
import glob
import platform
import tempfile
import venv
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
    if build != os.path.join(root, "build"):
        skip_all(f"wheels are made of build/, not of {build}")
    made = subprocess.run([os.path.join(root, "tools", "wheel"), folder.name], capture_output=True, text=True,
                          env={**os.environ, "PYTHON": sys.executable, "CUDA": "0"})
    wheel = (glob.glob(os.path.join(folder.name, "*.whl")) or [""])[0]
    if not wheel and re.search(r"No matching distribution|Could not find a version", made.stderr):
        skip_all(f"setuptools {version} is too old for wheels (77 does), and pip could not fetch another")
    check("tools/wheel", wheel, made.stdout[-500:] + made.stderr[-500:])
    check("says who checked its tag, or that nobody did", re.search("auditwheel finds it consistent|SKIPPED: auditwheel", made.stdout),
          made.stdout)
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
    asked = {(tuple(map(int, version.split("."))), name) for version, name in re.findall(r"GLIBC_(\d+\.\d+)\)? +(\w+)$", symbols, re.M)}
    need = max(version for version, _ in asked)
    check("which is not older than its programs ask for", tag and need <= (int(tag[1]), int(tag[2])), (need, wheel))
    late = sorted(name for version, name in asked if version > (2, 28))
    check("glibc 2.28 will do: tools/oldglibc.c has an older version of every function that is younger", not late, late)

# A fresh environment, which sees nothing of this one but numpy and scipy; its pip is ours, so that none must be fetched.
with tempfile.TemporaryDirectory() as place:
    venv.create(place, system_site_packages=True, with_pip=False)
    python, command = os.path.join(place, "bin", "python"), os.path.join(place, "bin", "wisp")
    said = subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel],
                          capture_output=True, text=True)
    check("pip install", said.returncode == 0, said.stderr)
    there = {k: v for k, v in os.environ.items() if k not in ("WISP_LIBRARY", "LD_PRELOAD", "PYTHONPATH")}

    def tell(*words):
        return subprocess.run(words, capture_output=True, text=True, env=there, cwd=place)

    for name, words in (("wisp", [command]), ("python -m wisp", [python, "-m", "wisp"])):
        said = tell(*words, "--version")
        check(f"{name} --version", said.returncode == 0 and wisp.__version__ in said.stdout, said.stdout + said.stderr)
    said = tell(command, "predict", "nowhere", "-")
    check("arguments and exit codes pass", said.returncode not in (0, 1) and "nowhere" in said.stderr, (said.returncode, said.stderr))
    said = tell(python, "-c", "import wisp; print(wisp.info()['library'])")
    check("the package uses the library in it", re.fullmatch(re.escape(place) + r"/lib/.*/wisp/lib/libwisp\.so", said.stdout.strip()),
          said.stdout + said.stderr)

    with open(os.path.join(place, "rows.csv"), "w") as f:
        f.write("text,labels\n" + "how long does bread keep,bread\na soup of onions and salt,soup\n" * 60)
    told = "train", "rows.csv", "--epochs", "3", "--hidden", "16", "--threads", "1", "--quiet", "-o"
    for name, words in (("its", [command]), ("our", [os.path.join(build, "wisp")])):
        said = tell(*words, *told, name)
        check(f"wisp train ({name})", said.returncode == 0, said.stderr)
    with open(os.path.join(place, "its"), "rb") as its, open(os.path.join(place, "our"), "rb") as our:
        check("both make the same bytes: old versions of glibc's functions give what new ones give", its.read() == our.read())
    said = tell(python, "-c", "import wisp; print(wisp.WispClassifier.load('its').predict_top(['onions in the soup'], k=1)[0])")
    check("Python predicts with that model", "soup" in said.stdout, said.stdout + said.stderr)

    # What is opened at run time comes along: a picture is read, a server starts.
    lib = os.path.dirname(tell(python, "-c", "import wisp; print(wisp.info()['library'])").stdout.strip())
    for name, package in (("libpng16.so.16", "libpng-dev"), ("libturbojpeg.so.0", "libturbojpeg0"), ("wisp-http.so", "libmicrohttpd-dev")):
        if not os.path.exists(os.path.join(lib, name)):
            skip(f"{name}: {package} was not there when the wheel was built")
            continue
        said = tell(python, "-c", f"import ctypes; ctypes.CDLL({os.path.join(lib, name)!r}, mode=2)")  # 2: all of it, now
        check(f"{name} can be opened", said.returncode == 0, said.stderr)

    # The wheel of the part for cards, of which any library is the likeness here: pip takes it, puts the part where the library
    # looks for it, and takes it away again.
    parts = os.path.join(place, "parts")
    said = tell(sys.executable, os.path.join(root, "tools", "wheel-cuda"), os.path.join(build, "libwisp.so"), parts)
    check("tools/wheel-cuda", said.returncode == 0, said.stdout + said.stderr)
    pip = sys.executable, "-m", "pip", "--python", python
    said = tell(*pip, "install", "-q", "--no-deps", *glob.glob(os.path.join(parts, "wisp_cuda-*.whl")))
    check("pip takes it", said.returncode == 0, said.stderr)
    check("all that it needs is there", "wisp-cuda" not in tell(*pip, "check").stdout, tell(*pip, "check").stdout)
    part = os.path.join(glob.glob(os.path.join(place, "lib", "python*", "site-packages", "wisp", "lib"))[0], "wisp-cuda.so")
    check("the part lies beside the library", os.path.isfile(part))
    said = tell(command, "info")
    check("where it is found: this one is no part", "of another version of wisp" in said.stdout, said.stdout[-600:])
    tell(*pip, "uninstall", "-q", "-y", "wisp-cuda")
    check("uninstalled, it is gone, and wisp is there", not os.path.exists(part) and tell(command, "--version").returncode == 0)
end()
