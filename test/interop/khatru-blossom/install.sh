#!/usr/bin/env bash
# The Blossom package of khatru v0.19.1 (Go modules), pinned with all it needs by go.mod and go.sum. Needs Go 1.24.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/khatru-blossom
mkdir -p "$target"
GOFLAGS=-buildvcs=false go build -mod=readonly -o "$target/khatru-blossom" .
