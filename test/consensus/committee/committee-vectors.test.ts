/** Everything that other implementations must compute identically, compared with vectors of an independent program. */

import { fromHex, toHex, utf8 } from 'nostrain/base';
import {
  bitsOf,
  createRevealChain,
  drawCommittee,
  firstRandomness,
  isReveal,
  nextRandomness,
  revealOf,
  tipOf,
} from 'nostrain/consensus';
import { featureSet, ledgerBytes, ledgerRoot, parseLedger } from 'nostrain/run';
import { expect, it, test } from 'vitest';
import { type CommitteeRules, rankOf } from '../../../src/consensus/committee/committee.ts';
import { readVectors } from '../../support/vectors.ts';

const vectors = readVectors<{
  readonly run: string;
  readonly bits: readonly { readonly lot: string; readonly bits: string }[];
  readonly committees: readonly {
    readonly run: string;
    readonly round: number;
    readonly attempt: number;
    readonly parent: string;
    readonly entropy: string;
    readonly eligible: readonly string[];
    readonly stakes: Readonly<Record<string, string>> | null;
    readonly rules: CommitteeRules;
    readonly expected: {
      readonly rank: readonly string[];
      readonly members: readonly string[];
      readonly weights: readonly string[];
      readonly quorum: number;
      readonly ctx: string;
    };
  }[];
  readonly entropies: readonly {
    readonly round: number;
    readonly reveal: string;
    readonly beacon: string;
    readonly entropy: string;
  }[];
  readonly reveals: {
    readonly secret: string;
    readonly rounds: number;
    readonly tip: string;
    readonly reveals: readonly string[];
  };
  readonly ledger: { readonly text: string; readonly root: string };
}>('committee.json');

test.each(vectors.bits)('bits of lot $lot', ({ lot, bits }) => {
  expect(bitsOf(BigInt(`0x${lot}`))).toBe(BigInt(bits));
});

test.each(vectors.committees)('committee of round $round, attempt $attempt', (vector) => {
  const { stakes: told, expected, ...input } = vector;
  const stakes = told && new Map(Object.entries(told).map(([key, stake]) => [key, BigInt(stake)]));
  expect(rankOf({ ...input, stakes })).toEqual(expected.rank);
  const { members, weights, quorum, ctx, size } = drawCommittee({ ...input, stakes });
  expect({ members, weights: weights.map(String), quorum, ctx }).toEqual({
    members: expected.members,
    weights: expected.weights,
    quorum: expected.quorum,
    ctx: expected.ctx,
  });
  expect(size).toBe(members.length);
});

it('the entropy of every round', () => {
  const [first, ...others] = vectors.entropies;
  expect(firstRandomness(vectors.run)).toBe(first!.entropy);
  let entropy = first!.entropy;
  for (const { round, reveal, beacon, entropy: expected } of others) {
    entropy = nextRandomness({ run: vectors.run, round, entropy, reveal, beacon });
    expect(entropy).toBe(expected);
  }
});

it('a reveal chain', () => {
  const { secret, rounds, tip, reveals } = vectors.reveals;
  const chain = createRevealChain(fromHex(secret)!, vectors.run, rounds);
  expect(tipOf(chain)).toBe(tip);
  reveals.forEach((reveal, round) => {
    expect(revealOf(chain, round)).toBe(reveal);
    expect(isReveal(tip, round, reveal)).toBe(true);
  });
});

it('the bytes and the root of a ledger', () => {
  const { text, root } = vectors.ledger;
  const parsed = parseLedger(utf8(text), root, featureSet(['defer', 'stake']));
  if (!parsed.ok) throw new Error(parsed.issue.message);
  expect(toHex(ledgerBytes(parsed.value))).toBe(toHex(utf8(text)));
  expect(ledgerRoot(parsed.value)).toBe(root);
});
