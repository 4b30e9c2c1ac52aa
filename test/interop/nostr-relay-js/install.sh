#!/usr/bin/env bash
# @nostr-relay/* 0.0.40 (npm), pinned with all it needs by package-lock.json; better-sqlite3 is downloaded or compiled.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/nostr-relay-js
mkdir -p "$target"
cp package.json package-lock.json main.mjs "$target"
cd "$target"
npm ci --no-audit --no-fund
