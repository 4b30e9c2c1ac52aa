#!/usr/bin/env bash
# nostr-sdk 0.45.1 (PyPI, bindings of the Rust library), pinned by requirements.txt. Needs Python 3.10 or newer with venv.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/nostr-sdk
rm -rf "$target"
python3 -m venv "$target"
"$target/bin/python" -m pip install --disable-pip-version-check --quiet -r requirements.txt
