/** The certified state out of a checkpoint: bytes from anybody, held against the two roots that a committee certified. */
import { sha256 } from '../base/hash.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { bytesRoot, type ModelState, readState } from '../consensus/state-root.ts';
import type { Digest } from '../run/ids.ts';
import { type Ledger, parseLedger } from '../run/ledger.ts';
import type { Layout } from '../tensor/params.ts';

/** What a checkpoint brings. */
export interface CheckpointBytes {
  /** Parameters, then momentum: see `stateBytes`. */
  readonly model: Uint8Array;
  /** Canonical JSON. */
  readonly ledger: Uint8Array;
}

export interface CheckpointState extends ModelState {
  /** Its entropy is left open: it may depend on a beacon that comes after. */
  readonly ledger: Ledger;
}

/** Parameters, momentum and ledger, when they are those of the roots; sizes are judged before anything is hashed. */
export function openCheckpoint(
  { model, ledger }: CheckpointBytes,
  roots: { readonly modelRoot: Digest; readonly ledgerRoot: Digest },
  layout: Layout,
  hash = sha256,
): Result<CheckpointState> {
  const expected = 8 * layout.size;
  if (model.length !== expected) {
    return refuse('wrong-length', 'model', `${model.length} bytes where ${expected} belong`);
  }
  if (bytesRoot(model, hash) !== roots.modelRoot) {
    return refuse('wrong-root', 'model', `not the model of ${roots.modelRoot}`);
  }
  const read = parseLedger(ledger, roots.ledgerRoot);
  return read.ok ? ok({ ...readState(model, layout), ledger: read.value }) : read;
}
