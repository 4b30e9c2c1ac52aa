/**
 * Starts the worker processes of a demo, in a run that averages or in a certified run, and logs their events until they
 * end.
 */

import { join } from 'node:path';
import type { RunSpec } from 'nostrain';
import type { Untyped } from '../../src/base/shape.ts';
import type { PartialSettings } from '../../src/run/settings.ts';
import { certify, enlist, type Hand } from './certified.ts';
import { EventLog } from './document.ts';
import type { Stage } from './stage.ts';
import {
  type Exit,
  joinLine,
  keepSettings,
  type OnEvent,
  runSwarm,
  trainLine,
  type WorkerProcess,
} from './swarm.ts';

export interface RunPlan {
  readonly name: string;
  /** Name of a run that averages; certified runs are named by their spec. */
  readonly run: string;
  readonly dir: string;
  /** Worker names; each worker has its own folder and key in `dir`. */
  readonly names: readonly string[];
  readonly settings: PartialSettings & { readonly rounds: number };
  readonly relays: readonly string[];
  readonly corpus: string | undefined;
  /** Fields of the spec of a certified run; undefined for workers that average. */
  readonly rules: Untyped | undefined;
  /** Tier of each worker; the workers of tier 0 are the founders of a certified run. */
  readonly tiers?: readonly number[];
  /** Number of parts that the data is cut into; default one for each worker. */
  readonly shards?: number;
}

export interface Played {
  readonly log: EventLog;
  readonly exits: readonly Exit[];
  readonly spec?: RunSpec;
}

export async function playRun(
  stage: Stage,
  plan: RunPlan,
  report: OnEvent = stage.report,
): Promise<Played> {
  const hands: Hand[] = [];
  for (const worker of plan.names) hands.push(await enlist(worker, plan.dir));
  const workers = plan.rules
    ? await certifiedWorkers(stage, plan, hands)
    : { processes: await averagingWorkers(plan) };
  const { processes, ...made } = workers;
  return { ...made, ...(await runLogged(processes, report, stage.signal)) };
}

/** Runs processes to their end and logs their events. */
export async function runLogged(
  workers: readonly WorkerProcess[],
  report: OnEvent,
  signal: AbortSignal,
): Promise<Played> {
  const log = new EventLog();
  const take: OnEvent = (worker, event) => {
    log.take(worker, event);
    report(worker, event);
  };
  return { log, exits: await runSwarm(workers, take, signal) };
}

/** The first worker evaluates, or the first worker of each tier. */
const lineOf = ({ dir, names, relays, corpus, tiers }: RunPlan, worker: string, i: number) => ({
  folder: join(dir, worker),
  workers: names.length,
  relays,
  corpus,
  evaluates: i === (tiers ? tiers.indexOf(tiers[i]!) : 0),
});

/** Returns the flags for a worker's part of the run. */
const partOf = ({ names, settings, tiers, shards = names.length }: RunPlan, i: number) => ({
  shard: `${i + 1}/${shards}`,
  tier: settings.tiers ? tiers?.[i] : undefined,
});

async function averagingWorkers(plan: RunPlan): Promise<readonly WorkerProcess[]> {
  const { run, dir, names, settings } = plan;
  const file = await keepSettings(dir, {
    ...settings,
    run: `demo-${run}`,
    sync: { strategy: 'strict', workers: names.length },
  });
  return names.map((worker, i) => ({
    name: worker,
    args: trainLine(file, lineOf(plan, worker, i), partOf(plan, i)),
  }));
}

async function certifiedWorkers({ signal, onNotice }: Stage, plan: RunPlan, hands: Hand[]) {
  const { names, tiers } = plan;
  // only workers of the full model found the run
  const rules = { ...(tiers && { admission: { kind: 'open' } }), ...plan.rules };
  const { tiers: _, ...training } = plan.settings;
  const founders = hands.filter((_, i) => !tiers?.[i]);
  const { spec, file } = await certify(founders, { ...plan, rules, training, signal, onNotice });
  const { base } = plan.settings;
  const processes = names.map((worker, i) => ({
    name: worker,
    args: joinLine(file, lineOf(plan, worker, i), { base, ...(tiers && partOf(plan, i)) }),
    // founders start last, since they begin at once; smaller tiers must have joined by round 2
    isLate: tiers?.[i] === 0,
  }));
  return { spec, processes };
}
