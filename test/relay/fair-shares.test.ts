import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { FairShares } from '../../relay/fair-shares.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

test('what left takes no memory: neither what was pushed out nor what was taken away, of however many authors', async () => {
  const shares = new FairShares<object>(10_000);
  const items: WeakRef<object>[] = [];
  for (let i = 0; i < 2000; i++) {
    const item = { i };
    items.push(new WeakRef(item));
    shares.add(`author ${i % 40}`, item, 1000);
    if (i % 2 === 0) shares.remove(`author ${i % 40}`, item);
    while (shares.weight > 10_000) shares.remove(...shares.first()!);
  }
  expect(shares.weight).toBe(10_000);
  // a WeakRef keeps its target alive until the turn of the event loop ends
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(items.filter((item) => item.deref() !== undefined)).toHaveLength(10);
});
