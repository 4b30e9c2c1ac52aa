/** Which listed contributions are drawn for recomputation: their authors disclose the private state that they trained from. */
import { bytes32, taggedHash, u32 } from '../base/hash.ts';
import type { Digest, WorkerId } from './ids.ts';

/** A contribution that an outcome lists, and the randomness of the round after it: nobody had that when it was sent. */
export interface Drawn {
  readonly run: Digest;
  readonly round: number;
  readonly worker: WorkerId;
  /** Of the round after it. */
  readonly entropy: string;
}

/** Whether the author of a listed contribution has to show its private state. */
export function isDrawn({ run, round, worker, entropy }: Drawn, permille: number): boolean {
  const parts = [bytes32(run), u32(round), bytes32(worker), bytes32(entropy)];
  const hash = taggedHash('nostrain/rerun/1', ...parts);
  return 1000 * new DataView(hash.buffer, hash.byteOffset).getUint32(0) < permille * 2 ** 32;
}
