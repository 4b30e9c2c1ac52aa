import { fromHex, toHex } from 'nostrain/base';
import { ownedChunks } from 'nostrain/consensus';
import { expect, test } from 'vitest';
import { rosterDigest } from '../../../src/consensus/committee/hrw.ts';
import { readVectors } from '../../support/vectors.ts';

const vectors = readVectors<{
  readonly run: string;
  readonly cases: readonly {
    readonly round: number;
    readonly entropy: string;
    readonly owners: number;
    readonly seats: 'even' | 'free';
    readonly chunks: number;
    readonly owned: Readonly<Record<string, readonly number[]>>;
    readonly rosterDigest: string;
  }[];
}>('payload-owners.json');

test.each(vectors.cases)('$owners owners, $seats seats, $chunks chunks', (vector) => {
  const { round, owners, seats, chunks, owned } = vector;
  const ownership = {
    ...{ round, owners, seats, run: fromHex(vectors.run)!, entropy: fromHex(vector.entropy)! },
    workers: Object.keys(owned).reverse(),
  };
  expect(toHex(rosterDigest(ownership))).toBe(vector.rosterDigest);
  const expected = Object.entries(owned).map(([key, own]) => [key, Uint32Array.from(own)]);
  expect([...ownedChunks(ownership, chunks)]).toEqual(expected);
});
