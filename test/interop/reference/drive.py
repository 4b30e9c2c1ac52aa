"""Runs command lines of the Python reference in one process and prints what each did.

    python3 drive.py CHECKOUT < invocations.json

The input is a list of {"folder": path, "argv": [...]}, the output a list of {"exit", "stdout", "stderr"} in that order. Each
runs in its folder, where files it names are found and written.
"""

import contextlib
import io
import json
import os
import sys
import traceback

sys.path.insert(0, f"{sys.argv[1]}/src")

from nostrain.cli import main  # noqa: E402


def run(argv):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code
        except Exception:
            traceback.print_exc()
            code = 1
    return {"exit": code or 0, "stdout": out.getvalue(), "stderr": err.getvalue()[-500:]}


results = []
for each in json.load(sys.stdin):
    os.chdir(each["folder"])
    results.append(run(each["argv"]))
json.dump(results, sys.stdout)
