/** `nostrain demo elastic`: workers of several tiers of width train one model, then some without tiers to compare. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunSpec } from 'nostrain';
import { createRelay } from 'nostrain/relay';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import { settingsFromFile } from '../../src/terminal/options.ts';
import { certify, enlist, type Hand, patientRules, replayKept } from '../shared/certified.ts';
import { type DemoData, demoText } from '../shared/data.ts';
import { EventLog } from '../shared/document.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import { type Exit, joinLine, keepSettings, runSwarm, trainLine } from '../shared/swarm.ts';
import { controlOf, type ElasticDocument, elasticRunOf } from './document.ts';
import { lineFaults } from './flags.ts';

const TIERS = [0, 0, 1, 2];
const TIER_NAMES = ['whole', 'half', 'quarter', 'eighth'];
const USUAL = { rounds: 8, innerSteps: 25 };
const QUICK = { rounds: 3, innerSteps: 10 };

/** What stays the same in all runs of the demo. */
interface Company {
  readonly stage: Stage;
  readonly data: DemoData;
  readonly relays: readonly string[];
  readonly settings: Awaited<ReturnType<typeof settingsFor>>;
  /** Number of parts that the text is cut into. */
  readonly shards: number;
}

interface Play {
  readonly name: string;
  readonly names: readonly string[];
  readonly tiers: readonly number[];
  readonly certified: boolean;
  readonly quiet: boolean;
}

/** Returns the exit code: 0 when every worker finished and all agree wherever they hold the same values. */
export async function runElasticDemo(flags: DemoFlags): Promise<number> {
  const { tiers = TIERS } = flags;
  const workers = tiers.map((tier, i) => `${TIER_NAMES[tier] ?? `tier-${tier}`}-${i + 1}`);
  return await onStage(flags, { name: 'elastic', workers }, async (stage) => {
    const { signal } = stage;
    const data = await demoText(stage);
    const faults = lineFaults(flags);
    const relays = await startRelays(faults, stage);
    const settings = await settingsFor(flags, Math.max(...tiers));
    const company = { stage, data, relays, settings, shards: tiers.length };
    const main = { name: 'tiers', names: workers, tiers, quiet: false };
    const { exits, played, spec, lastRoot } = await play(company, {
      ...main,
      certified: flags.certified === true,
    });
    const compare = async (name: string, count: number) => {
      const isOver = exits.some(({ code }) => code !== 0) || signal.aborted;
      if (flags.controls === false || isOver) return null;
      const who = count === 1 ? 'one worker' : `${count} workers`;
      stage.onNotice(`to compare: ${who} of the whole model`);
      const names = workers.slice(0, count);
      const full = { name, names, tiers: names.map(() => 0), certified: false, quiet: true };
      return controlOf((await play(company, full)).played);
    };
    const alone = await compare('alone', 1);
    const whole = await compare('whole', tiers.length);
    const last = controlOf(played).validationLoss;
    const base = alone?.validationLoss ?? null;
    const document = {
      ...played,
      alone,
      whole,
      aboveAlone: last === null || base === null ? null : last / base,
      replay: spec && played.agreed ? await replayed(spec, company, lastRoot) : null,
      faults: faults ?? null,
    };
    return tellEnd(document, exits, stage);
  });
}

/** Flags override --settings in what they set. */
async function settingsFor(flags: DemoFlags, tiers: number) {
  const { rounds, innerSteps } = flags.quick ? QUICK : USUAL;
  return {
    ...(flags.settings === undefined ? {} : await settingsFromFile(flags.settings)),
    model: 'char-gpt',
    heartbeatInterval: 10,
    rounds: flags.rounds ?? rounds,
    innerSteps: flags.innerSteps ?? innerSteps,
    seed: flags.seed,
    tiers,
  } as const;
}

/** A relay that loses events gets a second one without loss, because a strict round waits for a lost event for ever. */
async function startRelays(
  faults: FaultSettings = {},
  { flags, scope }: Stage,
): Promise<readonly string[]> {
  const { drop, ...others } = faults;
  const urls: string[] = [];
  for (const each of drop === undefined ? [faults] : [faults, others]) {
    const relay = await createRelay({ seed: flags.seed, faults: each });
    scope.defer(() => relay.close());
    urls.push(relay.url);
  }
  return urls;
}

/** One run with these workers, each in a process and a folder of its own. */
async function play(company: Company, { name, names, tiers, certified, quiet }: Play) {
  const { stage, settings } = company;
  const startedMs = Date.now();
  const log = new EventLog();
  const folder = join(stage.dir, name);
  await mkdir(folder, { recursive: true });
  const { spec, lineOf } = certified
    ? await certifyTiers(company, folder, names, tiers)
    : await averageTiers(company, folder, name, names, tiers);
  const processes = names.map((worker, i) => ({
    name: worker,
    args: lineOf(worker, i),
    // founders begin as soon as they see each other; the smaller tiers have to be there from round 2 on
    isLate: certified && tiers[i] === 0,
  }));
  let lastRoot = '';
  const exits = await runSwarm(
    processes,
    (worker, event) => {
      log.take(worker, event);
      if (event.type === 'round' && event.index + 1 === settings.rounds) lastRoot = event.digest;
      if (!quiet) stage.report(worker, event);
    },
    stage.signal,
  );
  const played = elasticRunOf(log, tiers, settings.innerSteps, {
    names,
    wallSeconds: (Date.now() - startedMs) / 1000,
    corpus: company.data,
    rounds: settings.rounds,
  });
  return { exits, played, spec, lastRoot };
}

/** What all workers of a run have; the first worker of each tier evaluates. */
const workerIn =
  ({ relays, data }: Company, dir: string, names: readonly string[], tiers: readonly number[]) =>
  (worker: string, i: number) => ({
    folder: join(dir, worker),
    workers: names.length,
    relays,
    corpus: data.file,
    evaluates: tiers.indexOf(tiers[i]!) === i,
  });

async function averageTiers(
  company: Company,
  dir: string,
  run: string,
  names: readonly string[],
  tiers: readonly number[],
) {
  const workerOf = workerIn(company, dir, names, tiers);
  const file = await keepSettings(dir, {
    ...company.settings,
    run: `demo-${run}`,
    sync: { strategy: 'strict', workers: names.length },
  });
  const tierOf = (i: number) => (company.settings.tiers === 0 ? undefined : tiers[i]);
  const lineOf = (worker: string, i: number) =>
    trainLine(file, workerOf(worker, i), {
      shard: `${i + 1}/${company.shards}`,
      tier: tierOf(i),
    });
  return { spec: undefined, lineOf };
}

/** The certified run of these tiers; its founders are the workers that have the full model. */
async function certifyTiers(
  company: Company,
  dir: string,
  names: readonly string[],
  tiers: readonly number[],
) {
  const { stage, data, relays, settings, shards } = company;
  const { signal, onNotice } = stage;
  const hands: Hand[] = [];
  for (const worker of names) hands.push(await enlist(worker, dir));
  const founders = hands.filter((_, i) => tiers[i] === 0);
  const { tiers: tierCount, ...training } = settings;
  const { spec, file } = await certify(founders, {
    name: 'elastic',
    dir,
    corpus: data.file,
    relays,
    signal,
    onNotice,
    training,
    rules: {
      ...patientRules,
      tiers: tierCount,
      joinsPerRound: names.length,
      data: { shards: names.length },
    },
  });
  const workerOf = workerIn(company, dir, names, tiers);
  const lineOf = (worker: string, i: number) =>
    joinLine(file, workerOf(worker, i), {
      tier: tierCount > 0 ? tiers[i] : undefined,
      shard: `${i + 1}/${shards}`,
    });
  return { spec, lineOf };
}

/** Recomputes the run from the events on the relays, from the first round on. */
async function replayed(
  spec: RunSpec,
  { relays, stage }: Company,
  modelRoot: string,
): Promise<ElasticDocument['replay']> {
  const { report, eventsFile } = await replayKept(spec, relays, stage.dir, stage.signal);
  const isFull = report.lines.every(({ checked }) => checked === 'full');
  const { ok, rounds, modelRoot: found } = report;
  return { ok: ok && isFull && found === modelRoot, rounds, modelRoot: found, eventsFile };
}

const fixed = (value: number | null | undefined, digits: number): string =>
  value === null || value === undefined || Number.isNaN(value) ? '–' : value.toFixed(digits);

interface Cost {
  readonly secondsPerStep: number | null;
  readonly peakBytes: number | null;
}

const costWords = ({ secondsPerStep, peakBytes }: Cost): string => {
  const memory = peakBytes === null ? '–' : `${Math.round(peakBytes / 2 ** 20)} MiB`;
  return `${fixed(secondsPerStep, 3)} s a step, ${memory}`;
};

/** Prints the verdict and returns the exit code. */
function tellEnd(document: ElasticDocument, exits: readonly Exit[], stage: Stage): number {
  const { say } = stage;
  const failed = stage.end(document, exits);
  const { workers, alone, whole, aboveAlone, replay, agreed } = document;
  for (const { tier, validationLosses } of document.tiers) {
    const members = workers.filter((worker) => worker.tier === tier);
    const { width, share } = members[0]!;
    const losses = `${fixed(validationLosses[0], 3)} -> ${fixed(validationLosses.at(-1), 3)}`;
    const size = `${width} wide, ${fixed(100 * share, 1)} % of the parameters`;
    const who = `tier ${tier}, ${members.length} of ${workers.length} workers`;
    say(`${who}: ${size}; loss ${losses}; ${costWords(members[0]!)}`);
  }
  const controls = [
    ['one worker of the whole model alone', alone],
    ['as many workers of the whole model', whole],
  ] as const;
  for (const [who, control] of controls) {
    if (control) say(`${who}: loss ${fixed(control.validationLoss, 3)}, ${costWords(control)}`);
  }
  if (aboveAlone !== null) {
    const percent = 100 * (aboveAlone - 1);
    const where = percent > 0 ? 'above' : 'below';
    const distance = fixed(Math.abs(percent), 1);
    say(`the whole model among tiers: ${distance} % ${where} the loss of the one alone`);
  }
  if (replay?.ok) {
    const root = `${replay.modelRoot.slice(0, 16)}…`;
    const again = `nostrain replay --events ${replay.eventsFile}`;
    say(`a replay of ${replay.rounds} rounds finds the same model root, ${root}: ${again}`);
  } else if (replay) {
    say(`the run does NOT replay from ${replay.eventsFile}`);
  }
  const isStopped = exits.some(({ stopped }) => stopped);
  if (!agreed || failed || isStopped || replay?.ok === false) {
    return stage.endWithoutAgreement(exits);
  }
  say('all workers hold the same bits wherever they hold the same values');
  return 0;
}
