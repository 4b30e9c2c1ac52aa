import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Place, PullPlan } from '../../../src/network/attachments/pull-plan.ts';

const SIZE = 45_056;
const rootsOf = (chunks: number, parts = 1) =>
  Array.from({ length: parts }, (_, i) => ({ root: `${i}`.repeat(64), bytes: chunks * SIZE }));
const planOf = (chunks: number, parts = 1, need = 1) =>
  new PullPlan({ need, roots: rootsOf(chunks, parts) }, 0);
const indices = (places: readonly Place[]) => places.map(({ index }) => index);

test('relays get different chunks, at most 64 at once', () => {
  const plan = planOf(200);
  const a = plan.take('a', ['a', 'b'], 0).places;
  const b = plan.take('b', ['a', 'b'], 0).places;
  expect(a).toHaveLength(64);
  expect(new Set([...indices(a), ...indices(b)]).size).toBe(a.length + b.length);
});

test('a chunk one relay has not got is asked of the others at once, and of it again later', () => {
  const plan = planOf(1);
  const { places } = plan.take('a', ['a', 'b'], 0);
  plan.answered('a', places, 10);
  expect(plan.take('a', ['a', 'b'], 20).places).toEqual([]);
  expect(plan.take('b', ['a', 'b'], 20)).toMatchObject({ places: [{ index: 0 }], tries: 0 });
  plan.answered('b', places, 30);
  expect(plan.take('a', ['a', 'b'], 400).places).toEqual([]);
  expect(plan.take('a', ['a', 'b'], 600)).toMatchObject({ places: [{ index: 0 }], tries: 1 });
});

test('what a slow relay owes is asked of another one after two seconds', () => {
  const plan = planOf(8);
  expect(plan.take('slow', ['slow', 'quick'], 0).places).toHaveLength(8);
  expect(plan.take('quick', ['slow', 'quick'], 1999).places).toEqual([]);
  expect(plan.take('quick', ['slow', 'quick'], 2000).places).toHaveLength(8);
});

test('of striped parts as many as are needed, another one when a chunk is nowhere, all of them when it takes long', () => {
  const parts = (places: readonly Place[]) => [...new Set(places.map(({ part }) => part))];
  const first = planOf(4, 3, 2);
  const asked = first.take('a', ['a'], 0).places;
  expect(parts(asked)).toEqual([0, 1]);
  for (const place of asked) if (place.part === 0 || place.index < 3) first.hold(place);
  first.answered('a', asked, 1);
  expect(parts(first.take('a', ['a'], 2).places)).toEqual([2]);

  const late = planOf(4, 3, 2);
  expect(parts(late.take('a', ['a'], 3001).places)).toEqual([0, 1, 2]);
});

test('is complete when the needed parts are whole, and says how far it is', () => {
  const plan = planOf(2, 3, 2);
  for (const [part, index] of [
    [0, 0],
    [2, 0],
    [2, 1],
  ] as const) {
    plan.hold({ part, index });
  }
  expect(plan.complete).toBe(false);
  expect(plan.progress).toEqual({ have: 3, of: 4 });
  plan.hold({ part: 0, index: 1 });
  expect(plan.whole).toEqual([0, 2]);
  expect(plan.complete).toBe(true);
});

test('whatever holds each chunk, all come as long as some relay has them', () => {
  const relays = ['a', 'b', 'c'];
  const holders = fc.array(fc.subarray(relays, { minLength: 1 }), { minLength: 1, maxLength: 99 });
  fc.assert(
    fc.property(holders, (held) => {
      const plan = planOf(held.length);
      for (let nowMs = 0; !plan.complete; nowMs += 100) {
        expect(nowMs).toBeLessThan(20_000);
        for (const relay of relays) {
          const { places } = plan.take(relay, relays, nowMs);
          for (const place of places) if (held[place.index]!.includes(relay)) plan.hold(place);
          plan.answered(relay, places, nowMs);
        }
      }
    }),
  );
});
