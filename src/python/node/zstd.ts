/** libzstd as WebAssembly, for payloads of kind 33333: Node 20 has no zstd of its own. */
import { compress, decompress, init } from '@bokuweb/zstd-wasm';
import type { Zstd } from '../codec/container.ts';

/** What the Python reference compresses with. */
const LEVEL = 9;

/** The library keeps its memory in one place, which a second start would pull away from under the first. */
let started: Promise<void> | undefined;

/** Loads the library once; a few milliseconds. */
export async function openZstd(): Promise<Zstd> {
  started ??= init();
  await started;
  return { compress: (block) => compress(block, LEVEL), expand: (frame) => decompress(frame) };
}
