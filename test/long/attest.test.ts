import { expect, it } from 'vitest';
import { tryFlips } from '../attest/flips.ts';

it('10,000 evidences with one bit changed are refused, or say the same', async () => {
  const { broken, refused } = await tryFlips(200, 10_000);
  expect(broken).toEqual([]);
  expect(refused).toBeGreaterThan(8_000);
});
