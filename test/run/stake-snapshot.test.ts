import fc from 'fast-check';
import { fromHex, toHex } from 'nostrain/base';
import {
  decodeSnapshot,
  formatStakeJson,
  parseStakeJson,
  type StakeSnapshot,
  snapshotBytes,
  snapshotId,
  stakeOf,
  stakeParams,
  stakeRows,
} from 'nostrain/run';
import { describe, expect, test } from 'vitest';
import { heightOf, MAX_STAKE, totalStake } from '../../src/run/stake/stake-snapshot.ts';
import { readVectors } from '../support/vectors.ts';

interface Vectors {
  readonly cases: readonly {
    readonly name: string;
    readonly snapshot: Omit<StakeSnapshot, 'params' | 'rows'> & {
      readonly params: Readonly<Record<string, string | number>>;
      readonly total: string;
      readonly rows: readonly { readonly key: string; readonly stake: string }[];
    };
    readonly id: string;
    readonly bytes?: string;
  }[];
  readonly refused: readonly { readonly name: string; readonly bytes: string }[];
}

const vectors = readVectors<Vectors>('stake-snapshot.json');

describe('vectors', () => {
  test.each(vectors.cases)('$name', ({ snapshot, id, bytes }) => {
    const { total, params, rows, ...rest } = snapshot;
    const ours: StakeSnapshot = {
      ...rest,
      params: stakeParams(params),
      rows: rows.map(({ key, stake }) => ({ key, stake: BigInt(stake) })),
    };
    expect(snapshotId(ours)).toBe(id);
    expect(String(totalStake(ours))).toBe(total);
    if (bytes !== undefined) expect(toHex(snapshotBytes(ours))).toBe(bytes);
    expect(decodeSnapshot(snapshotBytes(ours))).toEqual({ ok: true, value: ours });
    expect(parseStakeJson(formatStakeJson(ours))).toEqual({ ok: true, value: ours });
    expect(JSON.parse(formatStakeJson(ours))).toEqual({ ...snapshot, id });
  });

  test.each(vectors.refused)('refused: $name', ({ bytes }) => {
    expect(decodeSnapshot(fromHex(bytes)!)).toMatchObject({ ok: false });
  });
});

const hex = fc.uint8Array({ minLength: 32, maxLength: 32 }).map(toHex);
const snapshots: fc.Arbitrary<StakeSnapshot> = fc.record({
  chain: fc.constantFrom('eip155:1', 'nostrain:file', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'),
  strategy: fc.constantFrom('file', 'registry', 'erc20'),
  params: fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.nat()).map(stakeParams),
  height: fc.nat(Number.MAX_SAFE_INTEGER),
  blockHash: hex,
  unit: fc.constantFrom('wei', 'stake'),
  rows: fc
    .uniqueArray(fc.tuple(hex, fc.bigInt(1n, MAX_STAKE)), { selector: ([key]) => key })
    .map(stakeRows),
});

test('decoding what was encoded gives the value back, as bytes and as JSON', () => {
  fc.assert(
    fc.property(snapshots, (snapshot) => {
      const bytes = snapshotBytes(snapshot);
      const back = decodeSnapshot(bytes);
      expect(back).toEqual({ ok: true, value: snapshot });
      expect(parseStakeJson(formatStakeJson(snapshot))).toEqual(back);
    }),
  );
});

test('no other bytes decode to the same snapshot, and nothing throws', () => {
  const change = fc.record({ at: fc.nat(), to: fc.nat(255) });
  fc.assert(
    fc.property(snapshots, change, (snapshot, { at, to }) => {
      const bytes = snapshotBytes(snapshot);
      bytes[at % bytes.length] = to;
      const read = decodeSnapshot(bytes);
      if (read.ok) expect(snapshotBytes(read.value)).toEqual(bytes);
    }),
  );
  fc.assert(fc.property(fc.uint8Array(), (bytes) => !decodeSnapshot(bytes).ok));
});

describe('a JSON document', () => {
  const key = 'ab'.repeat(32);
  const snapshot: StakeSnapshot = {
    chain: 'nostrain:file',
    strategy: 'file',
    params: '{}',
    height: 0,
    blockHash: '00'.repeat(32),
    unit: 'stake',
    rows: [{ key, stake: 5n }],
  };
  const text = formatStakeJson(snapshot);
  const at = (changed: string) => {
    const read = parseStakeJson(changed);
    return read.ok ? 'accepted' : read.issue.at;
  };

  test.each([
    ['a stake changed', text.replace('"5" }', '"6" }'), 'total'],
    ['a stake and the total changed', text.replaceAll('"5"', '"6"'), 'id'],
    ['another unit', text.replace('"unit": "stake"', '"unit": "wei"'), 'id'],
    ['a stake as a number', text.replace('"5" }', '5 }'), 'rows.0'],
    ['a leading zero', text.replace('"5" }', '"05" }'), 'rows.0'],
    ['a row with more', text.replace('"5" }', '"5", "name": "eve" }'), 'rows.0'],
    ['an unknown member', text.replace('{', '{ "note": 1,'), 'note'],
    ['a member missing', text.replace('"unit": "stake",', ''), 'unit'],
    ['a height with a point', text.replace('"height": 0', '"height": 0.5'), 'height'],
    ['a key that is none', text.replace(key, 'npub'), 'rows.0.key'],
    ['a list', '[]', 'the document'],
    ['nothing', '', 'the document'],
    ['as written', text, 'accepted'],
    ['spaced otherwise', text.replaceAll('\n', '  '), 'accepted'],
  ])('%s', (_, changed, expected) => expect(at(changed)).toBe(expected));
});

test('stake without a join does not count', () => {
  const [a, b, c] = ['aa', 'bb', 'cc'].map((part) => part.repeat(32)) as [string, string, string];
  const snapshot: StakeSnapshot = {
    ...{ chain: 'eip155:1', strategy: 'registry', params: '{}', height: 1, unit: 'wei' },
    blockHash: '11'.repeat(32),
    rows: stakeRows([
      [b, 2n],
      [a, 1n],
      [c, 0n],
    ]),
  };
  expect(stakeOf(snapshot)).toEqual(
    new Map([
      [a, 1n],
      [b, 2n],
    ]),
  );
});

test('heights are arithmetic', () => {
  expect(heightOf({ base: 100, period: 32 }, 0)).toBe(100);
  expect(heightOf({ base: 100, period: 32 }, 3)).toBe(196);
  expect(() => heightOf({ base: 100, period: 32 }, -4)).toThrow(RangeError);
  expect(() => heightOf({ base: 0, period: Number.MAX_SAFE_INTEGER }, 2)).toThrow(RangeError);
});
