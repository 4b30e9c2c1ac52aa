/** Plays one world from beginning to end, and checks what holds in every world. */
import { createReconciliation } from '../../src/network/transport/missing-events.ts';
import { Restless, VirtualClock } from '../bench/simulate/virtual-clock.ts';
import { Chronicle } from './chronicle.ts';
import { openEngines } from './engine.ts';
import { faultNamed } from './faults/list.ts';
import { invariantsOf, patienceSeconds } from './invariants.ts';
import { isCompared, LOSS_STAYS, lossApart } from './loss.ts';
import { specOf } from './spec.ts';
import { WorldStage } from './stage.ts';
import { lastFaultSeconds, type World } from './world.ts';

export interface Violation {
  readonly invariant: string;
  readonly message: string;
}

export interface Played {
  readonly world: World;
  readonly violations: readonly Violation[];
  readonly traceHash: string;
  readonly notes: readonly string[];
  /** Seconds on the clock of the world until all had finished. */
  readonly seconds: number;
  readonly chronicle: Chronicle;
}

// loads the codec: a clock that does not wait for files would make its first use a matter of luck
await createReconciliation([]);

/** Steps of the clock in a second of a world: sixty times what 33 workers over four relays needed. */
const MOST_STEPS = 5_000_000;

/** Plays a world, and some without their faults as well, to compare what they learn. */
export async function playWorld(world: World): Promise<Played> {
  const played = await stageWorld(world);
  if (!isCompared(world)) return played;
  const { chronicle } = await stageWorld({ ...world, faults: [] });
  const apart = lossApart(played.chronicle, chronicle);
  const more = apart.map((message) => ({ invariant: LOSS_STAYS, message }));
  return { ...played, violations: [...played.violations, ...more] };
}

async function stageWorld(world: World): Promise<Played> {
  const spec = specOf(world);
  const engines = await openEngines(world, spec);
  const clock = new VirtualClock(MOST_STEPS);
  const startMs = clock.now();
  const seconds = () => (clock.now() - startMs) / 1000;
  const chronicle = new Chronicle(world, spec, seconds);
  const stage = new WorldStage(world, clock, chronicle, engines);
  try {
    for (const each of world.faults) faultNamed(each.fault).begin(each, stage);
    stage.begin();
    const lastMs = startMs + 1000 * (lastFaultSeconds(world) + patienceSeconds(world));
    const restless = await clock
      .runUntil(() => stage.isOver, lastMs)
      // an invariant says who has not finished
      .catch((error) => (error instanceof Restless ? error : undefined));
    const { traceHash, notes } = chronicle;
    const violations = invariantsOf(world).flatMap(({ name, check }) =>
      check(chronicle).map((message) => ({ invariant: name, message })),
    );
    if (restless) violations.unshift({ invariant: 'time moves on', message: restless.message });
    return { world, violations, traceHash, notes, seconds: seconds(), chronicle };
  } finally {
    stage.close();
    clock.close();
    for (const engine of engines) await engine.close();
  }
}
