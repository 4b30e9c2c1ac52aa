#!/usr/bin/env bash
# applesauce 6.2.0 and NDK 3.0.3 (npm), pinned with all they need by package-lock.json.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/applesauce
mkdir -p "$target"
cp package.json package-lock.json read.mjs "$target"
cd "$target"
npm ci --no-audit --no-fund --ignore-scripts
