/** A run's past for a worker that may be on the wrong branch of it: who decided what, and the state at the end of a branch. */
import { systemClock } from '../../base/clock.ts';
import type { RunSpec } from '../../run/run-spec.ts';
import { runIdOf } from '../../run/run-spec.ts';
import type { HistoryPort } from '../../worker/certified/branches.ts';
import type { Certified } from '../../worker/certified/history.ts';
import { hasModel, replay } from '../../worker/certified/replay.ts';
import { type CheckpointOptions, checkpointOn } from '../catch-up.ts';
import { type DecisionOptions, type Decisions, decisionsOf } from './decisions.ts';
import { fetchManifests } from './from-relays.ts';

interface Options extends CheckpointOptions, DecisionOptions {
  genesis(): Certified;
}

/** Asks relays each time. */
export function createHistory(spec: RunSpec, options: Options): HistoryPort {
  const run = runIdOf(spec);
  const { genesis, signal, clock = systemClock } = options;
  let known: Decisions | undefined;
  const ask = async () => {
    known = await decisionsOf(spec, genesis(), options);
    return known;
  };
  return {
    genesis,
    decisions: async () => (await ask()).gathered,
    async restore(path) {
      const end = path.tip.chain;
      const point = (await checkpointOn(path, run, options))?.state ?? genesis();
      // the first of them may list what came late for the round before
      const rounds = { from: Math.max(0, point.round - 1), to: end.round };
      const payloads = await fetchManifests(run, rounds, options);
      const events = (known ?? (await ask())).with(payloads);
      const playing = replay(point, events, end.parent);
      for (;;) {
        const { done, value } = playing.next();
        // a step of the model at a time
        await clock.sleep(0, signal);
        if (!done) continue;
        const { state } = value;
        return hasModel(state) && state.parent === end.parent ? state : undefined;
      }
    },
  };
}
