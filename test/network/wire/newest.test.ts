import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newer, slotOf } from '../../../src/network/wire/judged.ts';

test('later replaces earlier; of one second, the lower id stays', () => {
  const held = { createdAt: 5, eventId: 'b' };
  expect(newer({ createdAt: 6, eventId: 'c' }, held)).toBe(true);
  expect(newer({ createdAt: 5, eventId: 'a' }, held)).toBe(true);
  expect(newer(held, held)).toBe(false);
});

const entry = fc.record({
  createdAt: fc.nat(3),
  eventId: fc.constantFrom('0', '1', '2', '3'),
});

test('what stays does not depend on arrival', () => {
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 20 }), (entries) => {
      const keep = (held: typeof entries) => held.reduce((a, b) => (newer(b, a) ? b : a));
      expect(keep([...entries].reverse())).toEqual(keep(entries));
    }),
  );
});

test('a slot is one worker in one round', () => {
  expect(slotOf({ worker: 'a', round: 1 })).toBe(slotOf({ worker: 'a', round: 1 }));
  expect(slotOf({ worker: 'a', round: 1 })).not.toBe(slotOf({ worker: 'a', round: 2 }));
});
