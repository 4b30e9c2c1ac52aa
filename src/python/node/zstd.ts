/** libzstd as WebAssembly, for payloads of kind 33333: Node 20 has no built-in zstd. */
import { compress, decompress, init } from '@bokuweb/zstd-wasm';
import type { Zstd } from '../codec/container.ts';

/** Compression level of the Python reference. */
const LEVEL = 9;

/** The library has one global memory, which a second initialization would replace while the first is in use. */
let started: Promise<void> | undefined;

/** Loads the library, once per process; takes a few milliseconds. */
export async function openZstd(): Promise<Zstd> {
  started ??= init();
  await started;
  return { compress: (block) => compress(block, LEVEL), expand: (frame) => decompress(frame) };
}
