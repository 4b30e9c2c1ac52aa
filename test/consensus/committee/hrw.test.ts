import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { sha256, toHex } from 'nostrain/base';
import { nativeSha256 } from 'nostrain/node';
import { describe, expect, test } from 'vitest';
import {
  extraChunks,
  type Ownership,
  ownedChunks,
  rosterDigest,
  seatsAtMost,
} from '../../../src/consensus/committee/hrw.ts';

const roster = (count: number) =>
  Array.from({ length: count }, (_, i) => toHex(sha256(Uint8Array.of(i, i >> 8))));
const ownership = (change: Partial<Ownership>): Ownership => ({
  run: new Uint8Array(32).fill(1),
  round: 3,
  entropy: new Uint8Array(32).fill(2),
  workers: roster(4),
  owners: 1,
  seats: 'free',
  ...change,
});

/** Owners of each chunk. */
const byChunk = (rule: Ownership, chunks: number): string[][] => {
  const out: string[][] = Array.from({ length: chunks }, () => []);
  for (const [worker, own] of ownedChunks(rule, chunks, nativeSha256)) {
    for (const chunk of own) out[chunk]!.push(worker);
  }
  return out;
};
const loads = (rule: Ownership, chunks: number) =>
  [...ownedChunks(rule, chunks, nativeSha256).values()].map(({ length }) => length);

/** The rule as the page states it, with Node's own hash and buffers. */
function scoreOf({ run, round, entropy }: Ownership, worker: string, chunk: number): number {
  const hash = (...parts: (Uint8Array | string)[]) => {
    const sum = createHash('sha256');
    for (const part of parts) sum.update(part);
    return sum.digest();
  };
  const number = (value: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return bytes;
  };
  const key = Buffer.from(worker, 'hex');
  const seed = hash('nostrain:owner:', run, number(round), entropy, key);
  return hash(seed, number(chunk >> 3)).readUInt32BE(4 * (chunk & 7));
}

const rules = fc
  .record({ workers: fc.integer({ min: 1, max: 12 }), owners: fc.integer({ min: 1, max: 5 }) })
  .map(({ workers, owners }) => ownership({ workers: roster(workers), owners }));
const rounds = fc.integer({ min: 0, max: 1000 });
const chunkCounts = fc.integer({ min: 0, max: 60 });

describe('free seats', () => {
  test('the best scores own a chunk', () => {
    fc.assert(
      fc.property(rules, rounds, (rule, round) => {
        const here = { ...rule, round };
        byChunk(here, 20).forEach((owners, chunk) => {
          const ranked = [...here.workers].sort(
            (a, b) => scoreOf(here, b, chunk) - scoreOf(here, a, chunk),
          );
          expect(owners).toEqual(ranked.slice(0, here.owners).sort());
        });
      }),
      { numRuns: 30 },
    );
  });

  test('a leaver gives up its seats, and no other seat moves', () => {
    fc.assert(
      fc.property(rules, fc.nat(), chunkCounts, (rule, pick, chunks) => {
        const leaver = rule.workers[pick % rule.workers.length]!;
        const others = rule.workers.filter((worker) => worker !== leaver);
        const before = byChunk(rule, chunks);
        const after = byChunk({ ...rule, workers: others }, chunks);
        before.forEach((owners, chunk) => {
          const stayed = owners.filter((owner) => owner !== leaver);
          expect(after[chunk]).toEqual(expect.arrayContaining(stayed));
          if (stayed.length === owners.length) expect(after[chunk]).toEqual(owners);
        });
      }),
    );
  });

  test('loads are those of chance', () => {
    const owned = loads(ownership({ workers: roster(16), owners: 2 }), 8000);
    // mean 1000, standard deviation 30
    for (const load of owned) expect(Math.abs(load - 1000)).toBeLessThan(150);
  });
});

describe('even seats', () => {
  test('every chunk has ρ owners, and no two loads differ by more than one', () => {
    fc.assert(
      fc.property(rules, rounds, chunkCounts, (rule, round, chunks) => {
        const even = { ...rule, round, seats: 'even' } as const;
        const each = Math.min(rule.owners, rule.workers.length);
        for (const owners of byChunk(even, chunks)) {
          expect(owners).toHaveLength(each);
          expect(new Set(owners).size).toBe(each);
        }
        const owned = loads(even, chunks);
        expect(Math.max(...owned) - Math.min(...owned)).toBeLessThanOrEqual(1);
        expect(Math.max(...owned)).toBe(seatsAtMost(chunks, rule.workers.length, each));
      }),
    );
  });

  test('most chunks stay with their best scores', () => {
    const free = byChunk(ownership({}), 204);
    const even = byChunk(ownership({ seats: 'even' }), 204);
    const same = free.filter((owners, chunk) => owners[0] === even[chunk]![0]);
    expect(same.length).toBeGreaterThan(160);
  });
});

describe('both', () => {
  test('the order of the roster does not matter, round and entropy do', () => {
    for (const seats of ['free', 'even'] as const) {
      const rule = ownership({ workers: roster(7), owners: 2, seats });
      const reversed = { ...rule, workers: [...rule.workers].reverse() };
      expect(ownedChunks(reversed, 50)).toEqual(ownedChunks(rule, 50));
      expect(rosterDigest(reversed)).toEqual(rosterDigest(rule));
      const next = { ...rule, round: 4 };
      const drawn = { ...rule, entropy: new Uint8Array(32).fill(3) };
      for (const other of [next, drawn]) {
        expect(byChunk(other, 50)).not.toEqual(byChunk(rule, 50));
        expect(rosterDigest(other)).not.toEqual(rosterDigest(rule));
      }
    }
  });

  test('the digest tells rosters and rules apart', () => {
    const digests = [
      ownership({}),
      ownership({ workers: roster(5) }),
      ownership({ owners: 2 }),
      ownership({ seats: 'even' }),
      ownership({ run: new Uint8Array(32).fill(9) }),
    ].map((rule) => toHex(rosterDigest(rule, nativeSha256)));
    expect(new Set(digests).size).toBe(digests.length);
  });

  test('ρ of at least the roster size: every worker owns every chunk', () => {
    for (const owners of [4, 9]) {
      expect(loads(ownership({ owners }), 11)).toEqual([11, 11, 11, 11]);
      expect(loads(ownership({ owners, seats: 'even' }), 11)).toEqual([11, 11, 11, 11]);
    }
  });

  test('ten thousand chunks and sixty-four workers', () => {
    const owned = loads(ownership({ workers: roster(64), owners: 3, seats: 'even' }), 10_000);
    expect(owned.reduce((sum, load) => sum + load)).toBe(30_000);
    expect(new Set(owned)).toEqual(new Set([468, 469]));
  });

  test('refuses a repeated key, an invalid key, and no owner', () => {
    const [key] = roster(1);
    expect(() => ownedChunks(ownership({ workers: [key!, key!] }), 1)).toThrow(RangeError);
    expect(() => ownedChunks(ownership({ workers: ['abc'] }), 1)).toThrow(RangeError);
    expect(() => ownedChunks(ownership({ owners: 0 }), 1)).toThrow(RangeError);
    const short = new Uint8Array(31);
    for (const change of [{ run: short }, { entropy: short }, { round: 2 ** 32 }])
      expect(() => ownedChunks(ownership(change), 1)).toThrow(RangeError);
  });
});

describe('extra chunks of workers that own none', () => {
  const others = roster(20).slice(12);
  const some = fc.integer({ min: 0, max: others.length }).map((count) => others.slice(0, count));
  const besides = (rule: Ownership, keys: readonly string[], chunks: number) => [
    ...extraChunks(rule, keys, chunks, nativeSha256).values(),
  ];

  test('are no more of one worker than an owner has, ascending, each once', () => {
    fc.assert(
      fc.property(rules, some, rounds, chunkCounts, (rule, keys, round, chunks) => {
        const { owners, workers } = rule;
        for (const own of besides({ ...rule, round }, keys, chunks)) {
          expect(own.length).toBeLessThanOrEqual(seatsAtMost(chunks, workers.length, owners));
          expect([...own]).toEqual([...new Set(own)].sort((a, b) => a - b));
          expect(own.every((chunk) => chunk < chunks)).toBe(true);
        }
      }),
    );
  });

  test('no chunk has more than ρ of them, however many workers come and whatever their keys are', () => {
    fc.assert(
      fc.property(rules, some, rounds, chunkCounts, (rule, keys, round, chunks) => {
        const counts = new Array<number>(chunks).fill(0);
        for (const own of besides({ ...rule, round }, keys, chunks)) {
          for (const chunk of own) counts[chunk]! += 1;
        }
        expect(Math.max(0, ...counts)).toBeLessThanOrEqual(Math.max(1, rule.owners));
      }),
    );
  });

  test('go around the circle of chunks in the order of keys, from places that follow from the round', () => {
    const rule = ownership({ workers: roster(3), owners: 2 });
    const number = Buffer.from([3, 0, 0, 0]);
    const sum = createHash('sha256').update('nostrain:beside:').update(rule.run).update(number);
    const seed = sum.update(rule.entropy).digest();
    const [start, rotation] = [seed.readUInt32BE(0), seed.readUInt32BE(4)];
    const keys = [...others].sort();
    const owned = extraChunks(rule, [...keys].reverse(), 100, nativeSha256);
    const dealt = Math.floor((2 * 100 * keys.length) / (3 + keys.length));
    keys.forEach((key, i) => {
      const place = (i + rotation) % keys.length;
      const [from, to] = [place, place + 1].map((at) => Math.floor((at * dealt) / keys.length));
      const chunks = Array.from({ length: to! - from! }, (_, k) => (start + from! + k) % 100);
      expect([...owned.get(key)!]).toEqual(chunks.sort((a, b) => a - b));
    });
  });

  test('are about as many as the worker would own, and at least one newcomer has some', () => {
    const rule = ownership({ workers: roster(3), owners: 2 });
    expect(besides(rule, others.slice(0, 1), 100).map(({ length }) => length)).toEqual([50]);
    expect(besides(rule, others.slice(0, 2), 100).map(({ length }) => length)).toEqual([40, 40]);
    expect(besides(rule, others.slice(0, 1), 1).map(({ length }) => length)).toEqual([1]);
  });
});
