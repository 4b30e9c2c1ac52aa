#!/usr/bin/env bash
# The Blossom server of blossom-rs 0.3.0 (crates.io), pinned with all it needs by Cargo.lock. Needs Rust 1.85 and a C compiler.
# From 0.5 on it needs libclang too; 0.6 refuses authorizations as BUD-11 defines them.
set -euo pipefail
cd "$(dirname "$0")"
target=../../../.interop/blossom-rs
mkdir -p "$target"
work=${CARGO_TARGET_DIR:-$(mktemp -d)}
[ -n "${CARGO_TARGET_DIR:-}" ] || trap 'rm -rf "$work"' EXIT
cargo build --quiet --locked --target-dir "$work"
cp "$work/debug/blossom-rs" "$target/"
