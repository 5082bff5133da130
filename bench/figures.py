#!/usr/bin/env python3
"""bench/figures.py ID VALUE WHAT COMMAND: writes a figure down in bench/figures.json, from which all pages take it.

A page says "32.5<!-- =yso.epoch1.p1 -->": a number and, unseen where the page is shown, the name of the figure that it is; or, for a
table that was measured as a whole (a list of lines in Markdown), "<!-- measured: gpu.amazon670k -->" before it and "<!-- end -->" behind it.
tools/doc-tables puts the figure there; with --check it says where a page disagrees (tests/cli/test_docs.sh).  A figure is
written down with what it is, the command that gave it, the machine and how busy it was, the version of wisp and the day.  Scripts of
bench/ that have --record do it themselves (docs/ADDING.md, "A figure"):

    from figures import record
    record("bench/tables build", {"digits.wisp": (98.1, "accuracy on digits, percent")})"""
import datetime
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = ROOT / "bench/figures.json"


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{len(os.sched_getaffinity(0))} cores of {cpu[1] if cpu else 'an unknown CPU'}"


def others():
    """How busy the machine has been, where that was more than its cores can do at once."""
    load = os.getloadavg()[1]
    return f", load {load:.0f}" if load > 1.5 * os.cpu_count() else ""


def record(command, figures, on=None):
    """figures: {id: (value, what it is)}; numbers are kept as they will be read, so give them rounded.  A table is a list of lines."""
    version = re.search(r'^#define WISP_VERSION "(.*)"', (ROOT / "include/wisp/wisp.h").read_text(), re.M)[1]
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, (value, what) in figures.items():
        kept[name] = {"value": value if isinstance(value, list) else str(value), "what": what, "command": command, "on": (on or machine()) + others(), "version": version,
                      "date": datetime.date.today().isoformat()}
    FILE.write_text(json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    record(sys.argv[4], {sys.argv[1]: (sys.argv[2], sys.argv[3])})
