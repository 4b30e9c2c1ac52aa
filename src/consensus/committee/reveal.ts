/**
 * Reveal chains: a key commits to a chain of hashes once, by its last link (`tip`), and opens it from the end, a link further
 * inwards for each round. So it has exactly one value to give in a round, and nobody knows it before.
 */
import { toHex } from '../../base/bytes.ts';
import { bytes32, taggedHash } from '../../base/tagged-hash.ts';
import type { Digest } from '../../run/ids.ts';

const LINK = 'nostrain/reveal/1';
const START = 'nostrain/reveal-start/1';

/** The secret start of a key's chain in a run. */
export interface RevealChain {
  readonly start: Uint8Array;
  /** Of the run; the chain has one link more. */
  readonly rounds: number;
}

/** A key's chain, from any 32 secret bytes: the same ones always give the same chain. */
export const createRevealChain = (secret: Uint8Array, run: Digest, rounds: number): RevealChain => {
  if (secret.length !== 32) throw new RangeError('a secret has 32 bytes');
  return { start: taggedHash(START, secret, bytes32(run)), rounds };
};

/** What a join states. */
export const tipOf = ({ start, rounds }: RevealChain): Digest => toHex(advance(start, rounds + 1));

/** What the outcome of a round carries when this key proposed it; nothing in round 0. */
export function revealOf({ start, rounds }: RevealChain, round: number): Digest | '' {
  if (round < 0 || round >= rounds) throw new RangeError(`round ${round} of ${rounds}`);
  return round === 0 ? '' : toHex(advance(start, rounds - round));
}

/** Whether this is the one value that a key with this tip can give in a round. */
export function isReveal(tip: Digest | null, round: number, reveal: Digest | ''): boolean {
  if (round === 0 || reveal === '' || tip === null) return round === 0 && reveal === '';
  return toHex(advance(bytes32(reveal), round + 1)) === tip;
}

function advance(from: Uint8Array, links: number): Uint8Array {
  let link = from;
  for (let i = 0; i < links; i++) link = taggedHash(LINK, link);
  return link;
}
