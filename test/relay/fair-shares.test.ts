import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { FairShares } from '../../relay/fair-shares.ts';

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

test('what left takes no memory: neither what was pushed out nor what was taken away, of however many authors', async () => {
  const shares = new FairShares<Uint8Array>(10_000);
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < 2000; i++) {
    const item = new Uint8Array(1 << 20);
    shares.add(`author ${i % 40}`, item, 1000);
    if (i % 2 === 0) shares.remove(`author ${i % 40}`, item);
    while (shares.weight > 10_000) shares.remove(...shares.first()!);
  }
  collect();
  await new Promise((resolve) => setTimeout(resolve, 50));
  collect();
  expect(shares.weight).toBe(10_000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(15 << 20);
});
