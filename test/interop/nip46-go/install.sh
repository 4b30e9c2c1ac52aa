#!/usr/bin/env bash
# A remote signer made of go-nostr v0.51.8 (Go modules), pinned with all it needs by go.mod and go.sum. Needs Go 1.24.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/nip46-go
mkdir -p "$target"
GOFLAGS=-buildvcs=false go build -mod=readonly -o "$target/nip46-go" .
