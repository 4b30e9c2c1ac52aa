import { describe, expect, it } from 'vitest';
import { expectWhole } from '../support/chaos/expect-whole.ts';

describe('30 rounds of chaos', () => {
  it.each([1, 2, 3])('seed %i: one root, nothing lost, and most rounds are final', async (seed) => {
    const { goodput } = await expectWhole({ rounds: 30, seed });
    expect(goodput).toBeGreaterThanOrEqual(0.88);
  });
});
