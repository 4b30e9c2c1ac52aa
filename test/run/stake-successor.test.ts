import {
  keyListHash,
  MAX_STAKE_ROWS,
  type StakeSnapshot,
  stakeParams,
  stakeRows,
  successorOf,
} from 'nostrain/run';
import { expect, test } from 'vitest';
import { isSuccessor, snapshotIssue } from '../../src/run/stake/stake-snapshot.ts';

const [A, B, C, D] = ['0a', '0b', '0c', '0d'].map((part) => part.repeat(32)) as [
  string,
  string,
  string,
  string,
];
const table = (more: Partial<StakeSnapshot> = {}): StakeSnapshot => ({
  ...{ chain: 'eip155:1', strategy: 'erc20', height: 100, unit: 'token' },
  params: stakeParams({
    token: `0x${'11'.repeat(20)}`,
    keys: keyListHash([A, B, C]),
    balanceSlot: 3,
  }),
  blockHash: 'ab'.repeat(32),
  rows: stakeRows([
    [A, 5n],
    [C, 7n],
  ]),
  ...more,
});

test('of a token: the roster, and whoever has a row in the first table', () => {
  const first = table();
  const next = successorOf(first, 130, [D, B]);
  expect(next.keys).toEqual([A, B, C, D]);
  const params = stakeParams({
    ...{ token: `0x${'11'.repeat(20)}`, keys: keyListHash([A, B, C, D]), balanceSlot: 3 },
  });
  expect(next).toMatchObject({ chain: 'eip155:1', strategy: 'erc20', unit: 'token', height: 130 });
  expect(next.params).toBe(params);
  expect(snapshotIssue({ ...first, params })).toBeUndefined();
  expect(successorOf(first, 130, [B, D, A])).toEqual(next);
  expect(successorOf(first, 130, [B]).params).not.toBe(params);
  // B was asked for at first and had nothing: out of the roster it is not asked again
  expect(successorOf(first, 130, [D]).keys).toEqual([A, C, D]);
});

test('of a registry: whoever it names, so that the roster does not matter', () => {
  const params = stakeParams({ contract: `0x${'22'.repeat(20)}`, from: 7 });
  const first = table({ strategy: 'registry', params, unit: 'wei' });
  expect(successorOf(first, 130, [D])).toEqual({
    ...{ chain: 'eip155:1', strategy: 'registry', unit: 'wei', params, height: 130 },
    keys: undefined,
  });
});

test('no more keys than a table has rows: those of the roster stay', () => {
  const keys = Array.from({ length: MAX_STAKE_ROWS }, (_, i) => i.toString(16).padStart(64, '0'));
  const first = table({ rows: keys.map((key) => ({ key, stake: 1n })) });
  const { keys: asked } = successorOf(first, 130, [A]);
  expect(asked).toHaveLength(MAX_STAKE_ROWS);
  expect(asked).toContain(A);
  expect(asked).not.toContain(keys.at(-1));
});

test('a document is one when all it says of itself fits, and its rows are of keys that were asked for', () => {
  const first = table();
  const expected = successorOf(first, 130, [B]);
  const { params } = expected;
  const rows = stakeRows([[B, 9n]]);
  expect(isSuccessor(table({ height: 130, params, rows }), expected)).toBe(true);
  expect(isSuccessor(table({ height: 130, params, rows: [] }), expected)).toBe(true);
  const wrong: readonly Partial<StakeSnapshot>[] = [
    { height: 131 },
    { params: successorOf(first, 130, [D]).params },
    { chain: 'eip155:5' },
    { strategy: 'erc5805' },
    { unit: 'votes' },
    { rows: stakeRows([[D, 1n]]) },
  ];
  for (const change of wrong) {
    expect(isSuccessor(table({ height: 130, params, rows, ...change }), expected)).toBe(false);
  }
});

test('parameters that are no object are left as they are, and nothing is thrown', () => {
  const first = table({ params: 'nonsense' });
  expect(successorOf(first, 130, [B]).params).toBe('nonsense');
});
