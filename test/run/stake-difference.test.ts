import { type StakeSnapshot, stakeRows } from 'nostrain/run';
import { expect, test } from 'vitest';
import { stakeDifference } from '../../src/run/stake/stake-snapshot.ts';

const [A, B, C] = ['aa', 'bb', 'cc'].map((part) => part.repeat(32)) as [string, string, string];
const snapshot: StakeSnapshot = {
  ...{ chain: 'eip155:1', strategy: 'registry', params: '{}', height: 7, unit: 'wei' },
  blockHash: '11'.repeat(32),
  rows: stakeRows([
    [A, 1n],
    [C, 3n],
  ]),
};

test.each<[Partial<StakeSnapshot>, object | undefined]>([
  [{}, undefined],
  [{ height: 8 }, { field: 'height', one: '7', other: '8' }],
  [{ unit: 'gwei', height: 8 }, { field: 'height' }],
  [
    {
      rows: stakeRows([
        [A, 2n],
        [C, 3n],
      ]),
    },
    { field: `rows.${A}`, one: '1', other: '2' },
  ],
  [{ rows: stakeRows([[A, 1n]]) }, { field: `rows.${C}`, one: '3', other: 'nothing' }],
  [
    {
      rows: stakeRows([
        [A, 1n],
        [B, 2n],
        [C, 3n],
      ]),
    },
    { field: `rows.${B}`, one: 'nothing', other: '2' },
  ],
  [{ rows: stakeRows([[C, 3n]]) }, { field: `rows.${A}`, one: '1', other: 'nothing' }],
  [{ rows: [] }, { field: `rows.${A}`, one: '1', other: 'nothing' }],
])('%#', (changes, expected) => {
  const found = stakeDifference(snapshot, { ...snapshot, ...changes });
  if (expected === undefined) expect(found).toBeUndefined();
  else expect(found).toMatchObject(expected);
});
