import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairStore } from '../../src/base/bounded.ts';

const put = (store: FairStore<number>, name: string, owner: string, bytes = 10) =>
  store.set(name, { value: 1, owner, bytes });

describe('FairStore', () => {
  it('takes the oldest from who has too much, and keeps what others have', () => {
    const store = new FairStore<number>({ perOwner: 30, inAll: 50 });
    put(store, 'quiet', 'a');
    for (let i = 0; i < 100; i++) put(store, `loud ${i}`, 'b');
    expect([...store.entries()].map(([name]) => name)).toEqual([
      ...['quiet', 'loud 97', 'loud 98', 'loud 99'],
    ]);
    put(store, 'third', 'c', 20);
    expect(store.has('loud 97')).toBe(false);
    expect(store.has('quiet')).toBe(true);
    expect(put(store, 'never', 'c', 31)).toBe(false);
  });

  it('stays within its bounds, and counts what it holds', () => {
    const step = fc.record({
      name: fc.integer({ min: 0, max: 20 }),
      owner: fc.integer({ min: 0, max: 5 }),
      bytes: fc.integer({ min: 0, max: 60 }),
      isDeleted: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const store = new FairStore<number>({ perOwner: 50, inAll: 120 });
        for (const { name, owner, bytes, isDeleted } of steps) {
          if (isDeleted) store.delete(`${name}`);
          else put(store, `${name}`, `${owner}`, bytes);
          const held = [...store.entries()].map(([, stored]) => stored);
          expect(held.reduce((sum, each) => sum + each.bytes, 0)).toBe(store.bytes);
          expect(store.bytes).toBeLessThanOrEqual(120);
          for (const { owner: who } of held) {
            const own = held.filter((each) => each.owner === who);
            expect(own.reduce((sum, each) => sum + each.bytes, 0)).toBeLessThanOrEqual(50);
          }
        }
      }),
    );
  });
});
