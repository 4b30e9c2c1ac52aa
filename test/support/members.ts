/** Reproducible keys and weights for tests of committee draws. */
import { sha256Hex, u32 } from 'nostrain/base';
import type { Weighted } from 'nostrain/consensus';
import { taggedHash } from '../../src/base/hash.ts';

/** Any string of 64 hex digits is a key here. */
export const keyOf = (index: number): string => sha256Hex(u32(index));

export const keysUpTo = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => keyOf(i));

/** One member for each weight. */
export const membersOf = (weights: readonly (number | bigint)[]): readonly Weighted[] =>
  weights.map((weight, i) => ({ key: keyOf(i), weight: BigInt(weight) }));

/** 32 bytes that follow from a number. */
export const seedOf = (index: number): Uint8Array => taggedHash('seed of a test', u32(index));
