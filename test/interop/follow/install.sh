#!/usr/bin/env bash
# What follow.py uses (coincurve, NumPy, rfc8785; PyPI), pinned by requirements.txt. Needs Python 3.10 or newer with venv.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/follow
rm -rf "$target"
python3 -m venv "$target"
"$target/bin/python" -m pip install --disable-pip-version-check --quiet -r requirements.txt
