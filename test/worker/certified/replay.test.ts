import { describe, expect, it } from 'vitest';
import type { SignedEvent } from '../../../src/network/event.ts';
import { gather } from '../../../src/worker/certified/gather.ts';
import { genesisOf } from '../../../src/worker/certified/history.ts';
import { type ReplayedRound, replay } from '../../../src/worker/certified/replay.ts';
import { startOf } from '../../../src/worker/certified/start.ts';
import { type GeneratedRun, generateRun } from '../../support/certified-run.ts';

function replayed({ spec, run }: GeneratedRun, events: readonly SignedEvent[]) {
  const rounds: ReplayedRound[] = [];
  const playing = replay(genesisOf(spec, startOf(spec)), gather(events, { run, spec }));
  for (;;) {
    const next = playing.next();
    if (next.done) return { rounds, end: next.value };
    rounds.push(next.value);
  }
}

describe('a replay', () => {
  it('computes the roots of every round again', () => {
    const made = generateRun();
    const { rounds, end } = replayed(made, made.events);
    expect(rounds.map(({ invalid, missing }) => ({ invalid, missing }))).toEqual(
      made.rounds.map(() => ({})),
    );
    expect(rounds.map(({ checked }) => checked)).toEqual(made.rounds.map(() => 'full'));
    expect(end.digests).toEqual(made.rounds.map(({ digest }) => digest));
    expect(end.state.modelRoot).toBe(made.state.modelRoot);
    expect(end.state.ledgerRoot).toBe(made.state.ledgerRoot);
  });
});
