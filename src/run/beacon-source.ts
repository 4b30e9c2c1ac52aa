/** Randomness from outside that comes after an outcome: a port, and what is shown for a value. docs/committee.md says what it is for. */
import type { Digest } from './ids.ts';

/** A signature proves itself to whoever has the chain's key; a block hash is for those to check who reach the chain. */
export type BeaconProof =
  | { readonly signature: string }
  | { readonly block: Digest; readonly height: number };

export interface BeaconSource {
  /** For people. */
  readonly name: string;
  /**
   * What counts after an outcome of this time, in unix seconds; waits until the moment has come. Throws a `ChainError` when nobody
   * has it yet, or nobody answers; it may be asked again.
   */
  after(time: number, signal: AbortSignal): Promise<BeaconProof>;
}
