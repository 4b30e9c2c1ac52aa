import { proveRound, type RoundProof, runRoot } from 'nostrain/certified';
import { describe, expect } from 'vitest';
import { type Claimed, run as isProved } from '../../browser/round-proof.ts';
import { generateRun } from '../../support/certified-run.ts';
import { itInChromium, runInChromium } from '../../support/chromium.ts';
import { type Roots, run } from '../../support/replay-roots.ts';

describe('a replay in a browser', () => {
  const made = generateRun();

  itInChromium('gives the same roots as in Node, to the bit', async () => {
    const entry = new URL('../../support/replay-roots.ts', import.meta.url);
    const there = await runInChromium<typeof made.events, Roots>(entry, made.events);
    expect(there).toEqual(run(made.events));
    expect(there.modelRoots).toEqual(made.rounds.map(({ modelRoot }) => modelRoot));
    expect(there.checked).toEqual(made.rounds.map(() => 'full'));
    expect(there.genuine).toBe(made.events.length);
  });

  itInChromium('T-12: the proof of each round is verified, a changed one is refused', async () => {
    const { digests } = run(made.events);
    const other = (digest: string) => `${digest[0] === '0' ? '1' : '0'}${digest.slice(1)}`;
    const proofs: RoundProof[] = digests.flatMap((_, round) => {
      const proof = proveRound(digests, round);
      return [proof, { ...proof, digest: other(proof.digest) }];
    });
    // repeating the last round gives another root
    const twice = [...digests, digests.at(-1)!];
    proofs.push(proveRound(twice, twice.length - 1));
    const claimed: Claimed = { root: runRoot(digests), proofs };
    const entry = new URL('../../browser/round-proof.ts', import.meta.url);
    const there = await runInChromium<Claimed, boolean[]>(entry, claimed);
    expect(there).toEqual([...digests.flatMap(() => [true, false]), false]);
    expect(there).toEqual(isProved(claimed));
  });
});
