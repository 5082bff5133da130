"""Builds the wheel: runs make, has tools/dist gather the command and the library with what they need, and puts that into
the package.

The wheel holds wisp/bin/wisp (the command; the script 'wisp' starts it), wisp/lib/ (libwisp.so and the libraries that it opens
at run time; with 'pip install .' also the parts for cards and for MPI where they were built, which 'make wheel' leaves out)
with their licences, and wisp/classifier.pyi, the keywords of the option table for type checkers.  Nothing is compiled against
Python: one wheel serves every version of it on a platform, and its tag names the glibc that its programs need.  MAKEFLAGS,
CUDA=0 and MPI=0 in the environment reach make, PARTS reaches tools/dist.  An editable install only runs make: the package
then uses build/."""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
BASE = "build/python"  # setuptools' own files, beside make's
VERSION = re.search(r'^#define WISP_VERSION "(.*)"', (ROOT / "include/wisp/wisp.h").read_text(), re.M)[1]


FOLDERS = ("bin", "lib", "licenses")


class Build(build_py):
    def run(self):
        super().run()
        subprocess.run(["make", f"-j{os.cpu_count()}", "all"], cwd=ROOT, check=True)
        if self.editable_mode:
            return
        said = subprocess.run(["tools/dist", "build", BASE + "/dist"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        print(said.stdout, end="", flush=True)
        found = re.search(r"needs glibc (\d+)\.(\d+)", said.stdout)
        self.distribution.glibc = found and found.groups()
        package = pathlib.Path(self.build_lib) / "wisp"
        made = ROOT / BASE / "dist" / f"wisp-{VERSION}"
        for name in FOLDERS:
            shutil.rmtree(package / name, ignore_errors=True)
            shutil.copytree(made / name, package / name, ignore=shutil.ignore_patterns("libwisp.so.*"))  # a link
        shutil.copy(made / "LICENSE", package / "licenses" / "wisp")
        stub = subprocess.run([sys.executable, str(ROOT / "tools/python-stub"), str(made / "lib/libwisp.so")],
                              check=True, capture_output=True, text=True).stdout
        (package / "classifier.pyi").write_text(stub)

    def get_outputs(self, include_bytecode=True):
        here = os.path.join(self.build_lib, "wisp")
        extra = [p for d in FOLDERS for p in glob.glob(os.path.join(here, d, "*"))]
        return super().get_outputs(include_bytecode) + extra + [os.path.join(here, "classifier.pyi")]


class Platform(Distribution):
    """Of one platform, although setuptools compiles nothing for it."""

    glibc = None  # that its programs need, as two numbers; none: it was not found out

    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        """py3-none-manylinux_2_34_x86_64: for any machine with this glibc or a newer one (PEP 600)."""
        platform = super().get_tag()[2]
        if self.distribution.glibc and platform.startswith("linux_"):
            platform = "_".join(("manylinux", *self.distribution.glibc, platform[len("linux_"):]))
        return "py3", "none", platform


os.makedirs(ROOT / BASE, exist_ok=True)
setup(version=VERSION, distclass=Platform, scripts=["python/scripts/wisp"],
      cmdclass={"build_py": Build, "bdist_wheel": Wheel},
      options={"build": {"build_base": BASE}, "egg_info": {"egg_base": BASE}, "bdist_wheel": {"bdist_dir": BASE + "/wheel"}})
