"""Runs command lines of the Python reference in one process and prints what each did.

    python3 drive.py INVOCATIONS OUTCOMES

Both are files; the first holds a list of {"folder": path, "argv": [...]}, the second gets one of {"exit", "stdout", "stderr"}
in that order. Each runs in its folder, where files it names are found and written. The reference is on PYTHONPATH.
"""

import contextlib
import io
import json
import os
import sys
import traceback

from nostrain.cli import main


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


invocations, outcomes = sys.argv[1:]
results = []
with open(invocations) as source:
    wanted = json.load(source)
for each in wanted:
    os.chdir(each["folder"])
    results.append(run(each["argv"]))
with open(outcomes, "w") as target:
    json.dump(results, target)
