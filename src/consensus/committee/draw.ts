/**
 * Weighted random sampling without replacement from a seed (weighted rendezvous hashing; Efraimidis & Spirakis 2006),
 * in integers; docs/committee.md specifies it to the bit. Also draws the contributors of a round.
 */
import { concatBytes, utf8 } from '../../base/bytes.ts';
import { bytes32, hashTails, taggedHash, u32, WORDS } from '../../base/hash.ts';
import { seatNames } from '../../run/founder-seats.ts';
import { type Digest, roundName, type WorkerId } from '../../run/ids.ts';
import type { Ledger } from '../../run/ledger.ts';

/** A public key and its weight in a draw. */
export interface Weighted {
  readonly key: WorkerId;
  /** From 1 to 2^128 - 1. */
  readonly weight: bigint;
}

/** Keys and weights, prepared for any number of draws. Their order does not matter. */
export interface Candidates {
  readonly members: readonly Weighted[];
  /** Keys as big-endian words, eight each. */
  readonly keys: Uint32Array;
  /** Weights as doubles, exact enough to rule out keys that cannot win. */
  readonly weights: Float64Array;
}

/** Candidates with eight lots each, drawn from one seed. */
export interface Lots extends Candidates {
  readonly lots: Uint32Array;
}

/** Independent draws per seed: the hash of a key has eight words. */
export const DRAWS_PER_SEED = WORDS;
/** Largest weight of a key. */
const MOST_WEIGHT = 2n ** 128n - 1n;
/** Domain tag: the hashed message starts with it, zero-padded to 32 bytes. */
const TAG = utf8('nostrain/draw/1');
/** Value of a hex digit by character code. */
const NO_DIGIT = 255;
const DIGIT = new Uint8Array(128).fill(NO_DIGIT);
[...'0123456789abcdef'].forEach((digit, value) => {
  DIGIT[digit.charCodeAt(0)] = value;
});
/** Bounds slightly below and above 1 / ln 2 (1.4427). */
const LEAST_BITS = 1.44;
const MOST_BITS = 1.45;

/** Prepares keys and weights for draws. Throws a RangeError for an invalid or repeated key, or an invalid weight. */
export function createCandidates(members: readonly Weighted[]): Candidates {
  const keys = new Uint32Array(members.length * WORDS);
  const weights = new Float64Array(members.length);
  members.forEach(({ key, weight }, i) => {
    if (!readKey(key, keys, i * WORDS)) throw new RangeError(`${key} is not a public key`);
    if (weight < 1n || weight > MOST_WEIGHT) throw new RangeError(`${weight} is not a weight`);
    weights[i] = Number(weight);
  });
  if (!isDistinct(members)) throw new RangeError('a key is in the pool twice');
  return { members, keys, weights };
}

/** Reports whether all keys differ; fast for ascending keys, as in rosters. */
const isDistinct = (members: readonly Weighted[]): boolean =>
  members.every(({ key }, i) => i === 0 || members[i - 1]!.key < key) ||
  new Set(members.map(({ key }) => key)).size === members.length;

/** Hashes every key with a 32-byte seed. Throws a RangeError for a seed of another length. */
export function drawLots(pool: Candidates, seed: Uint8Array): Lots {
  if (seed.length !== 32) throw new RangeError('a seed has 32 bytes');
  const prefix = concatBytes(TAG, new Uint8Array(32 - TAG.length), seed);
  return { ...pool, lots: hashTails(prefix, pool.keys) };
}

/** Returns the first `count` keys of one of the seed's eight draws (`drawIndex`), best first. */
export function bestOf(lots: Lots, drawIndex: number, count: number): readonly Weighted[] {
  if (!(drawIndex >= 0 && drawIndex < DRAWS_PER_SEED))
    throw new RangeError(`draw ${drawIndex} of ${DRAWS_PER_SEED}`);
  const ahead = inTheRunning(lots, drawIndex, count);
  if (ahead.length < 2) return ahead.map((i) => lots.members[i]!);
  return ahead
    .map((i) => ({ ...lots.members[i]!, bits: bitsOf(lotOf(lots, i, drawIndex)) }))
    .sort(byScore)
    .slice(0, count)
    .map(({ key, weight }) => ({ key, weight }));
}

/**
 * Returns the indices of the keys that can still win, by the first word of their lots: with x = 1 - lot / 2^256 the
 * bits are between x / ln 2 and x / (1 - x) / ln 2. The margins exceed the rounding of doubles, so no winner is lost.
 */
function inTheRunning(
  { members, weights, lots }: Lots,
  drawIndex: number,
  count: number,
): number[] {
  let cut = Number.POSITIVE_INFINITY;
  let highs: number[] = [];
  for (let i = 0; i < members.length; i++) {
    const top = lots[i * WORDS + drawIndex]!;
    const most = MOST_BITS * (2 ** 32 - top);
    const unit = top * weights[i]!;
    if (!(most < cut * unit)) continue;
    highs.push(most / unit);
    if (highs.length < 2 * count) continue;
    highs = highs.sort((a, b) => a - b).slice(0, count);
    cut = highs[count - 1]!;
  }
  if (highs.length >= count) cut = 2 ** 32 * highs.sort((a, b) => a - b)[count - 1]!;
  const ahead: number[] = [];
  for (let i = 0; i < members.length; i++) {
    const least = LEAST_BITS * (2 ** 32 - 1 - lots[i * WORDS + drawIndex]!);
    if (least <= cut * weights[i]!) ahead.push(i);
  }
  return ahead;
}

interface Scored extends Weighted {
  /** 256 - log2 of the lot, in 2^-64. */
  readonly bits: bigint;
}

/** Orders by bits / weight, cross-multiplied; ties by key. */
function byScore(a: Scored, b: Scored): number {
  const [left, right] = [a.bits * b.weight, b.bits * a.weight];
  if (left === right) return a.key < b.key ? -1 : 1;
  return left < right ? -1 : 1;
}

/** Returns the lot of a key in a draw, from 1 to 2^256 - 1: its hash words, rotated to start at word `drawIndex`. */
function lotOf({ lots }: Lots, index: number, drawIndex: number): bigint {
  let lot = 0n;
  for (let i = 0; i < WORDS; i++) {
    lot = (lot << 32n) | BigInt(lots[index * WORDS + ((drawIndex + i) % WORDS)]!);
  }
  return lot | 1n;
}

/** Returns 256 - log2(lot) in fixed point with 64 fraction bits, by repeatedly squaring a 128-bit mantissa. */
export function bitsOf(lot: bigint): bigint {
  const whole = BigInt(lot.toString(2).length - 1);
  let mantissa = lot << (127n - whole);
  let log = whole;
  for (let bit = 0; bit < 64; bit++) {
    mantissa = (mantissa * mantissa) >> 127n;
    const carry = mantissa >> 128n;
    mantissa >>= carry;
    log = (log << 1n) | carry;
  }
  return (256n << 64n) - log;
}

/** Parses 64 lowercase hex digits into eight words; false for any other text. */
function readKey(text: string, out: Uint32Array, at: number): boolean {
  let isHex = text.length === 8 * WORDS;
  for (let i = 0; i < WORDS; i++) {
    let word = 0;
    for (let j = 8 * i; j < 8 * i + 8; j++) {
      const digit = DIGIT[text.charCodeAt(j)] ?? NO_DIGIT;
      isHex &&= digit !== NO_DIGIT;
      word = (word << 4) | digit;
    }
    out[at + i] = word;
  }
  return isHex;
}

/** Draws `count` of these keys for the round of a ledger, all with the same weight. */
export function drawEqually(
  tag: string,
  run: Digest,
  ledger: Ledger,
  { keys, count }: { readonly keys: readonly WorkerId[]; readonly count: number },
): readonly WorkerId[] {
  const { round, entropy } = ledger;
  if (entropy === null) throw new RangeError(`no entropy in ${roundName(round)}`);
  const { nameOf, keyOf } = seatNames(ledger);
  const seed = taggedHash(tag, bytes32(run), u32(round), bytes32(entropy));
  const pool = createCandidates(keys.map((key) => ({ key: nameOf(key), weight: 1n })));
  return bestOf(drawLots(pool, seed), 0, count).map(({ key }) => keyOf(key));
}

/** Settings of the draw of contributors. */
export interface SampleRules {
  readonly run: Digest;
  /** Number of contributors drawn for each round; 0 or absent: all members contribute. */
  readonly contributors?: number;
}

/** Draws by ledger: a draw hashes every key, and it is needed for every contribution of a round. */
const draws = new WeakMap<Ledger, ReadonlySet<WorkerId>>();

/** Returns the keys that may contribute to the round; null if all may. Throws a RangeError without the entropy. */
export function drawnOf(rules: SampleRules, ledger: Ledger): ReadonlySet<WorkerId> | null {
  const { run, contributors = 0 } = rules;
  const { members } = ledger;
  if (contributors === 0 || members.length <= contributors) return null;
  const known = draws.get(ledger);
  if (known?.size === contributors) return known;
  const pool = { keys: members.map(({ key }) => key), count: contributors };
  const drawn = new Set(drawEqually('nostrain/contributors/1', run, ledger, pool));
  draws.set(ledger, drawn);
  return drawn;
}

/**
 * Returns the final round in which a member that was not drawn counts as seen. Its number of missed final rounds stays
 * the same, so that no member is removed for silence in rounds that did not ask it to contribute.
 */
export function seenUndrawn(
  { lastSeen, joined }: { readonly lastSeen: number; readonly joined: number },
  finals: readonly number[],
): number {
  const from = Math.max(lastSeen + 1, joined);
  return finals.find((final) => final >= from) ?? lastSeen;
}
