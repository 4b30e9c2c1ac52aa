/** Which subscriptions an event is tested against if there are many. */

import { compileFilter, defaultLimits, type Entry } from 'nostrain/relay';
import { expect, test } from 'vitest';
import { LiveIndex } from '../../relay/event-index.ts';

const run = 'a'.repeat(64);
const entry = (kind: number): Entry =>
  ({
    id: 'b'.repeat(64),
    pubkey: 'c'.repeat(64),
    created_at: 1,
    kind,
    tags: [['s', run]],
  }) as never;

function openIndex(filters: readonly unknown[]): LiveIndex {
  const index = new LiveIndex();
  for (const [i, raw] of filters.entries()) {
    const filter = compileFilter(raw, defaultLimits);
    if (typeof filter === 'string') throw new Error(filter);
    index.add({ id: String(i), filters: [filter], bytes: 0, deliver: () => undefined });
  }
  return index;
}

const heard = (index: LiveIndex, kind: number) => {
  const { listeners, tested } = index.matching(entry(kind));
  return { listeners: [...listeners].map(({ id }) => Number(id)).sort(), tested };
};

test('an event is not tested against who asks for other kinds of the same run, or the same kind of another', () => {
  const others = Array.from({ length: 200 }, (_, i) =>
    i % 2 === 0 ? { kinds: [1000, 1001], '#s': [run] } : { kinds: [2000], '#s': ['d'.repeat(64)] },
  );
  const index = openIndex([{ kinds: [2000], '#s': [run] }, { '#s': [run] }, ...others]);
  expect(heard(index, 2000)).toEqual({ listeners: [0, 1], tested: 2 });
});

test('lists too long to be put together are filed under one of them, and are heard all the same', () => {
  const kinds = Array.from({ length: 100 }, (_, i) => 1000 + i);
  const index = openIndex([
    { kinds, '#s': [run] },
    { kinds: [], '#s': [run] },
    { kinds, '#s': [] },
    { kinds: [1005], '#s': [run], '#t': ['x'] },
  ]);
  expect(heard(index, 1005).listeners).toEqual([0]);
  expect(heard(index, 1005).tested).toBeLessThanOrEqual(2);
});
