/** A run's past for a worker that may be on the wrong branch of it: who decided what, and the state at the end of a branch. */
import { systemClock } from '../base/clock.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { runIdOf } from '../run/run-spec.ts';
import type { AskPast } from './branches.ts';
import { type CheckpointOptions, checkpointOn } from './catch-up.ts';
import { type DecisionOptions, decisionsOf } from './decisions.ts';
import { fetchManifests } from './from-relays.ts';
import type { Certified } from './history.ts';
import type { Path } from './path.ts';
import { hasModel, replay } from './replay.ts';

interface Options extends CheckpointOptions, DecisionOptions {
  genesis(): Certified;
}

/** Asks relays each time, and keeps nothing. */
export function createHistory(spec: RunSpec, options: Options): AskPast {
  const run = runIdOf(spec);
  const { signal, clock = systemClock } = options;
  return async () => {
    const start = options.genesis();
    const decisions = await decisionsOf(spec, start, options);
    return { start, events: decisions.gathered, restore };

    async function restore(path: Path): Promise<Certified | undefined> {
      const end = path.tip.chain;
      const point = (await checkpointOn(path, run, options))?.state ?? start;
      // the first of them may list what came late for the round before
      const rounds = { from: Math.max(0, point.round - 1), to: end.round };
      const payloads = await fetchManifests(run, rounds, options);
      const playing = replay(point, decisions.with(payloads), end.parent);
      for (;;) {
        const { done, value } = playing.next();
        // a step of the model at a time
        await clock.sleep(0, signal);
        if (!done) continue;
        const { state } = value;
        return hasModel(state) && state.parent === end.parent ? state : undefined;
      }
    }
  };
}
