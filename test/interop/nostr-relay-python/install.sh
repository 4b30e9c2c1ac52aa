#!/usr/bin/env bash
# nostr-relay 1.14 (PyPI), pinned with all it needs by requirements.txt. Needs Python 3.10 or newer with venv.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/nostr-relay-python
rm -rf "$target"
python3 -m venv "$target"
"$target/bin/python" -m pip install --disable-pip-version-check --quiet -r requirements.txt
