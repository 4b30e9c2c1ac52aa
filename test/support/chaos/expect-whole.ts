/** What must hold of every chaos run, however long: one root, nothing lost, nothing signed twice, and a replay of all of it. */
import { expect } from 'vitest';
import { type Findings, judge } from './findings.ts';
import { playChaos } from './play.ts';

/** Plays and judges it; hands on how often a worker was killed as well. */
export async function expectWhole(
  options: Parameters<typeof playChaos>[0],
): Promise<Findings & { readonly kills: number }> {
  const played = await playChaos(options);
  try {
    const found = await judge(played);
    expect(found.roots).toHaveLength(1);
    expect(found.differing).toEqual([]);
    expect(found.replay).toEqual({ full: options.rounds, chain: 0, root: found.roots[0] });
    expect(found).toMatchObject({ doubleSigned: 0, banned: 0 });
    expect(found.lost).toBeLessThan(1e-9);
    return { ...found, kills: played.kills };
  } finally {
    await played.close();
  }
}
