/**
 * Round randomness (`entropy`): a hash over the previous randomness, the last proposer's reveal and the beacon value,
 * if any. A key commits to the end (`tip`) of its own hash chain when it joins, and reveals one link with each
 * proposal: its only influence is to withhold a proposal.
 */
import { fromHex, toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash, u32 } from '../../base/hash.ts';
import type { Digest } from '../../run/ids.ts';

/** Domain tag of the entropy hash. */
const TAG = 'nostrain/entropy/1';

/** Returns the randomness of round 0: derived from the run id alone, so it is known before the run starts. */
export const firstRandomness = (run: Digest): Digest => toHex(taggedHash(TAG, bytes32(run)));

/** Inputs of the randomness of a round. */
export interface RandomnessInputs {
  readonly run: Digest;
  readonly round: number;
  readonly entropy: Digest;
  /** Reveal in the previous outcome; empty if that has none. */
  readonly reveal: Digest | '';
  /** drand randomness or block hash, 32 bytes in hex; empty in a run without beacon. */
  readonly beacon: Digest | '';
}

/** Returns the randomness of a later round; reveal and beacon are each preceded by their length in one byte. */
export function nextRandomness({ run, round, entropy, reveal, beacon }: RandomnessInputs): Digest {
  const fields = [bytes32(run), u32(round), bytes32(entropy), ...sized(reveal), ...sized(beacon)];
  return toHex(taggedHash(TAG, ...fields));
}

function sized(hex: Digest | ''): readonly Uint8Array[] {
  const bytes = hex === '' ? fromHex('')! : bytes32(hex);
  return [Uint8Array.of(bytes.length), bytes];
}

/** Domain tags of a key's reveal chain: of its links and of its start. */
const LINK = 'nostrain/reveal/1';
const START = 'nostrain/reveal-start/1';

/** The secret hash chain of a key in a run. */
export interface RevealChain {
  readonly start: Uint8Array;
  /** Number of rounds of the run; the chain has one link more. */
  readonly rounds: number;
}

/** Derives a key's chain for a run from 32 secret bytes. Throws a RangeError for another length. */
export const createRevealChain = (secret: Uint8Array, run: Digest, rounds: number): RevealChain => {
  if (secret.length !== 32) throw new RangeError('a secret has 32 bytes');
  return { start: taggedHash(START, secret, bytes32(run)), rounds };
};

/** Returns the commitment that a join carries. */
export const tipOf = ({ start, rounds }: RevealChain): Digest => toHex(advance(start, rounds + 1));

/** Returns the reveal for an outcome that this key proposes; empty in round 0. Throws if the run has no such round. */
export function revealOf({ start, rounds }: RevealChain, round: number): Digest | '' {
  if (round < 0 || round >= rounds)
    throw new RangeError(`round index ${round} of ${rounds} rounds`);
  return round === 0 ? '' : toHex(advance(start, rounds - round));
}

/** Reports whether this is the valid reveal of the key with this tip in a round. */
export function isReveal(tip: Digest | null, round: number, reveal: Digest | ''): boolean {
  if (round === 0 || reveal === '' || tip === null) return round === 0 && reveal === '';
  return toHex(advance(bytes32(reveal), round + 1)) === tip;
}

function advance(from: Uint8Array, links: number): Uint8Array {
  let link = from;
  for (let i = 0; i < links; i++) link = taggedHash(LINK, link);
  return link;
}
