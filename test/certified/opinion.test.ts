import { buildMessage, genesisOf, opinionOf, startOf } from 'nostrain/certified/parts';
import type { Commit } from 'nostrain/run';
import { expect, it } from 'vitest';
import { certifiedSpec, signerOf } from '../support/certified-run.ts';
import { outcomeWith } from '../support/large-bodies.ts';

it('a vote on an outcome that leaves out two thousand contributions still fits in its event', () => {
  const spec = certifiedSpec();
  const held = Array.from({ length: 2000 }, (_, i) => {
    const hex = (0xfff_ffff - i).toString(16).padStart(64, '0');
    return { worker: hex, manifest: hex, delay: 0 };
  });
  const outcome = { ...outcomeWith(0), result: 'void' as const };
  const sight = { available: held, owed: [], hasStakes: true, nowMs: outcome.time * 1000 };
  const state = genesisOf(spec, startOf(spec));
  const [member] = state.ledger.members;
  const members = held.map(({ worker: key }) => ({ ...member!, key })).reverse();
  const ledger = { ...state.ledger, members };
  const { unlisted } = opinionOf({ ...state, ledger }, outcome, sight);
  expect(unlisted).toEqual(Array.from({ length: 1024 }, (_, place) => place));
  const { run, round, parent } = outcome;
  const commit: Commit = {
    ...{
      type: 'vote',
      step: 'commit',
      justify: -1,
      unlisted: unlisted.map((place) => 64_000 + place),
    },
    ...{ run, round, parent, attempt: 0, ctx: run, view: 0, digest: run },
  };
  const createdAt = 1_790_000_000;
  const draft = buildMessage(commit, { createdAt, expiresAt: createdAt + 1 });
  const bytes = JSON.stringify(signerOf(1).sign(draft)).length;
  expect(bytes).toBeGreaterThan(6000);
  expect(bytes).toBeLessThan(61_440);
});
