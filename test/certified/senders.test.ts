/**
 * Which worker sends which parameter chunks: keys that may have a seat own them, newcomers send in addition, keys
 * without stake send nothing.
 */

import {
  assignmentOf,
  buildSnapshot,
  createEvidenceStore,
  electorateOf,
  type RoundParameters,
  roundParametersOf,
  unwrapRuling,
} from 'nostrain/certified/parts';
import { type StakeSnapshot, snapshotId, stakeRows } from 'nostrain/run';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';

const keyOf = (number: number) => signerOf(number).publicKey;
const CHUNKS = 40;
const wide = createLayout([{ name: 'w', shape: [CHUNKS * CHUNK_LENGTH] }]);
const spec = certifiedSpec({ training: { rounds: 12 } });

/** The round after these, with a model of forty chunks and two owners each. */
function roundParametersAfter(...rounds: readonly Round[]): RoundParameters {
  const { state } = generateRun(rounds, spec);
  const roundParameters = unwrapRuling(roundParametersOf(state, createEvidenceStore()));
  const training = { ...spec.training, owners: 2 };
  return { ...roundParameters, layout: wide, spec: { ...spec, training } };
}

/** Counts how many of these workers own each chunk. */
function countBy(roundParameters: RoundParameters, numbers: readonly number[]): readonly number[] {
  const counts = new Array<number>(CHUNKS).fill(0);
  const assignment = assignmentOf(roundParameters);
  for (const number of numbers) {
    for (const chunk of assignment.chunksOf(keyOf(number))) counts[chunk]! += 1;
  }
  return counts;
}

const twice = new Array<number>(CHUNKS).fill(2);

describe('attack: keys without stake own chunks, which then never change', () => {
  const table: StakeSnapshot = {
    ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'point' },
    blockHash: '0'.repeat(64),
    rows: stakeRows([[keyOf(1), 100n]]),
  };
  const staked = certifiedSpec({
    stake: { source: 'file', snapshot: snapshotId(table) },
    training: { owners: 1, rounds: 12 },
  });
  const life = { createdAt: 1_790_000_000, expiresAt: 2_500_000_000 };
  const event = signerOf(1).sign(buildSnapshot(table, life).draft);

  it('every round changes the model even if only one founder of four has stake', () => {
    const { rounds } = generateRun(new Array<Round>(8).fill({}), staked, [event]);
    expect(new Set(rounds.map(({ modelRoot }) => modelRoot)).size).toBe(8);
  });

  it('chunks are owned by keys with weight, and no other key sends any', () => {
    const stakes = new Map([1, 2, 3].map((number) => [keyOf(number), 5n] as const));
    const roundParameters = { ...roundParametersAfter({}, { joins: [5] }), stakes };
    expect(countBy(roundParameters, [1, 2, 3])).toEqual(twice);
    expect(countBy(roundParameters, [4, 5])).toEqual(new Array(CHUNKS).fill(0));
  });

  it('a newcomer with stake sends in addition', () => {
    const stakes = new Map([1, 2, 5].map((number) => [keyOf(number), 5n] as const));
    const roundParameters = { ...roundParametersAfter({}, { joins: [5] }), stakes };
    expect(countBy(roundParameters, [1, 2])).toEqual(twice);
    expect(assignmentOf(roundParameters).chunksOf(keyOf(5)).length).toBeGreaterThan(0);
  });
});

describe('a newcomer', () => {
  it('sends chunks in its first round that other workers own', () => {
    const roundParameters = roundParametersAfter({}, { joins: [5] });
    expect(roundParameters.round).toBe(2);
    expect(countBy(roundParameters, [1, 2, 3, 4])).toEqual(twice);
    expect(assignmentOf(roundParameters).chunksOf(keyOf(5))).toHaveLength((2 * CHUNKS) / 5);
  });

  it.each<[string, readonly Round[]]>([
    ['its first', [{}, {}, {}, {}]],
    ['its third', [{ absent: [5] }, { absent: [5] }, {}, {}, {}]],
  ])('is waited for in each round, also in the one after it was first seen, %s', (_, later) => {
    const stakes = new Map([1, 2, 3, 4, 5].map((number) => [keyOf(number), 5n] as const));
    for (const count of later.keys()) {
      const roundParameters = roundParametersAfter({}, { joins: [5] }, ...later.slice(0, count));
      expect(electorateOf(roundParameters, null).awaited, `${roundParameters.round}`).toContain(
        keyOf(5),
      );
      expect(electorateOf(roundParameters, stakes).awaited, `${roundParameters.round}`).toContain(
        keyOf(5),
      );
    }
  });

  it('owns no chunk before it has contributed, however long it is in the roster', () => {
    const silent = { joins: [5] };
    const empty: Round = { empty: [5] };
    const roundParameters = roundParametersAfter({}, silent, empty, empty, empty, empty);
    expect(countBy(roundParameters, [1, 2, 3, 4])).toEqual(twice);
    expect(assignmentOf(roundParameters).chunksOf(keyOf(5)).length).toBeGreaterThan(0);
  });

  it('owns chunks like all others two rounds after its first contribution', () => {
    const roundParameters = roundParametersAfter({}, { joins: [5] }, {}, {});
    expect(countBy(roundParameters, [1, 2, 3, 4, 5])).toEqual(twice);
  });
});
