"""The wisp command, which the package brings: 'wisp' and 'python -m wisp' become it."""
from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    here = pathlib.Path(__file__).resolve().parent
    places = [here / "bin" / "wisp", here.parents[1] / "build" / "wisp"]  # installed; of the tree that this file belongs to
    for place in places:
        if place.is_file():
            os.execv(place, [str(place), *sys.argv[1:]])
    sys.exit("wisp: no command in " + " or ".join(str(p.parent) for p in places) + ": install the package (pip install .), "
             "or run 'make'")
