/** Workers are killed and relays lie, forget and die: a few rounds of what `npm run bench:chaos` plays a hundred of. */
import { expect, it } from 'vitest';
import { judge } from '../../support/chaos/findings.ts';
import { playChaos } from '../../support/chaos/play.ts';

it('30 % of the workers killed and one relay harmful in each round: one root, nothing lost, nothing signed twice', async () => {
  const played = await playChaos({ rounds: 6, seed: 3 });
  try {
    const found = await judge(played);
    expect(found.roots).toHaveLength(1);
    expect(found.differing).toEqual([]);
    expect(found.replay).toEqual({ full: 6, chain: 0, root: found.roots[0] });
    expect(found).toMatchObject({ doubleSigned: 0, banned: 0 });
    expect(found.lost).toBeLessThan(1e-9);
    expect(found.learned).toBeGreaterThan(1);
    expect(found.final).toBeGreaterThanOrEqual(4);
    expect(played.kills).toBeGreaterThan(10);
  } finally {
    await played.close();
  }
}, 60_000);
