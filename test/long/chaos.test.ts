import { describe, expect, it } from 'vitest';
import { judge } from '../support/chaos/findings.ts';
import { playChaos } from '../support/chaos/play.ts';

describe('30 rounds of chaos', () => {
  it.each([1, 2, 3])('seed %i: one root, nothing lost, and most rounds are final', async (seed) => {
    const played = await playChaos({ rounds: 30, seed });
    try {
      const found = await judge(played);
      expect(found.roots).toHaveLength(1);
      expect(found.differing).toEqual([]);
      expect(found.replay).toEqual({ full: 30, chain: 0, root: found.roots[0] });
      expect(found).toMatchObject({ doubleSigned: 0, banned: 0 });
      expect(found.lost).toBeLessThan(1e-9);
      expect(found.goodput).toBeGreaterThanOrEqual(0.88);
    } finally {
      await played.close();
    }
  });
});
