#!/usr/bin/env bash
# nostr-rs-relay 0.8.12 (cargo), with the dependencies its own lock file pins but for `time`: 0.3.25 does not compile since
# Rust 1.80. Compiles for ten minutes; needs protoc (Debian: protobuf-compiler).
set -euo pipefail
cd "$(dirname "$0")/../../.."
target=$PWD/.interop/nostr-rs-relay
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo init --quiet --name fetched "$work/fetched"
(cd "$work/fetched" && cargo add --quiet nostr-rs-relay@=0.8.12 && cargo fetch --quiet)
cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/nostr-rs-relay-0.8.12 "$work/relay"
cd "$work/relay"
cargo update --quiet -p time@0.3.25 --precise 0.3.36
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$work/target}" cargo install --path . --locked --root "$target"
