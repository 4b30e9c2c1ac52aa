/** `nostrain demo elastic`: workers of several tiers of width train one model over a relay, then some without tiers, to compare with. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { FaultSettings } from '../../relay/faults/settings.ts';
import { type Scope, withScope } from '../../src/base/scope.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { startRelay } from '../../src/cli/commands/relay.ts';
import type { RunSpec } from '../../src/run/spec/run-spec.ts';
import { settingsFromFile } from '../../src/terminal/flags.ts';
import { onInterrupt } from '../../src/terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../src/terminal/output.ts';
import { createReporter } from '../../src/terminal/reporter.ts';
import { enlist, type Hand } from '../certified/crew.ts';
import { certify } from '../shared/certify.ts';
import { type DemoData, demoFolder, demoText } from '../shared/data.ts';
import { replayKept } from '../shared/replay-kept.ts';
import { type Exit, runSwarm } from '../shared/swarm.ts';
import { type DemoSettings, workerProcess } from '../shared/worker-line.ts';
import {
  controlOf,
  createElasticRecorder,
  type ElasticDocument,
  type ReplayFound,
} from './document.ts';
import { type LineFlags, lineFaults } from './flags.ts';

export interface ElasticFlags extends LineFlags {
  readonly tiers?: readonly number[];
  readonly rounds?: number;
  readonly innerSteps?: number;
  readonly seed: number;
  readonly corpus?: string;
  readonly settings?: string;
  readonly dir?: string;
  readonly quick?: boolean;
  readonly controls?: boolean;
  readonly certified?: boolean;
  readonly headless?: boolean;
  readonly json?: boolean;
}

const TIERS = [0, 0, 1, 2];
const USUAL = { rounds: 8, innerSteps: 25 };
const QUICK = { rounds: 3, innerSteps: 10 };

/** What stays the same in all plays. */
interface Stage {
  readonly flags: ElasticFlags;
  readonly dir: string;
  readonly data: DemoData;
  readonly relays: readonly string[];
  readonly settings: DemoSettings;
  readonly signal: AbortSignal;
  report(worker: string, event: RunEvent): void;
}

interface Play {
  readonly name: string;
  readonly names: readonly string[];
  readonly tiers: readonly number[];
  /** Into how many parts the text is cut. */
  readonly shards: number;
  /** The smallest tier of the run, whether or not somebody trains it. */
  readonly tierCount: number;
  readonly certified: boolean;
}

/** Returns the exit code: 0 when every worker finished and all agree wherever they hold the same values. */
export const runElasticDemo = (flags: ElasticFlags): Promise<number> =>
  withScope(async (scope) => {
    const { json = false, headless, tiers = TIERS } = flags;
    const interrupt = onInterrupt();
    scope.defer(interrupt.dispose);
    const { signal } = interrupt;
    const dir = await demoFolder('elastic', flags.dir, scope);
    const names = tiers.map(
      (tier, i) => `${'whole half quarter eighth'.split(' ')[tier] ?? `tier-${tier}`}-${i + 1}`,
    );
    const stream = json ? process.stderr : process.stdout;
    const mode = json || headless ? 'plain' : undefined;
    const reporter = createReporter(mode, { title: 'demo elastic', workers: names, stream });
    scope.defer(() => reporter.close());
    const onNotice = (message: string) => reporter.notice(message);
    const data = await demoText({ dir, corpus: flags.corpus, onNotice, signal });
    const faults = lineFaults(flags);
    const relays = await relaysWith(faults, flags.seed, scope);
    const told = new Set<string>();
    const report = (worker: string, event: RunEvent) => {
      if (event.type !== 'notice') reporter.event(worker, event);
      else if (!told.has(event.message)) onNotice(`${worker}: ${event.message}`);
      if (event.type === 'notice') told.add(event.message);
    };
    const { rounds = USUAL.rounds, innerSteps = USUAL.innerSteps } = {
      ...(flags.quick && QUICK),
      ...withoutAbsent({ rounds: flags.rounds, innerSteps: flags.innerSteps }),
    };
    const settings = { model: 'char-gpt', heartbeatInterval: 10, rounds, innerSteps } as const;
    const stage = { flags, dir, data, relays, settings, signal, report };
    const same = { shards: tiers.length, tierCount: Math.max(...tiers) };
    const certified = flags.certified === true;
    const { exits, played, spec, lastRoot } = await play(stage, {
      ...same,
      name: 'tiers',
      names,
      tiers,
      certified,
    });
    const compare = async (name: string, workers: number) => {
      const isOver = exits.some(({ code }) => code !== 0) || signal.aborted;
      if (flags.controls === false || isOver) return null;
      onNotice(
        `to compare: ${workers === 1 ? 'one worker' : `${workers} workers`} of the whole model`,
      );
      const ordinal = Array.from({ length: workers }, (_, i) => names[i]!);
      const like = { ...same, name, names: ordinal, tiers: ordinal.map(() => 0), certified: false };
      const quiet = { ...stage, report: () => undefined };
      return controlOf((await play(quiet, like)).played);
    };
    const alone = await compare('alone', 1);
    const whole = await compare('whole', tiers.length);
    const last = controlOf(played).validationLoss;
    const base = alone?.validationLoss ?? null;
    const aboveAlone = last === null || base === null ? null : last / base;
    const replay = spec && played.agreed ? await replayed(spec, stage, lastRoot) : null;
    const document = { ...played, alone, whole, aboveAlone, replay, faults: faults ?? null };
    reporter.close();
    return tellEnd(document, exits, dir, json);
  });

async function relaysWith(
  all: FaultSettings | undefined,
  seed: number,
  scope: Scope,
): Promise<readonly string[]> {
  const urls: string[] = [];
  for (const faults of relayFaults(all)) {
    const relay = await startRelay({ host: '127.0.0.1', port: 0, seed, faults });
    scope.defer(() => relay.close());
    urls.push(relay.url);
  }
  return urls;
}

/** A relay that loses things has one beside it that does not: what one lost for good, a strict round would wait for. */
const relayFaults = (faults: FaultSettings = {}): readonly FaultSettings[] => {
  const { drop, ...others } = faults;
  return drop === undefined ? [faults] : [faults, others];
};

const withoutAbsent = <T extends object>(values: T): Partial<T> =>
  Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined),
  ) as Partial<T>;

/** One run with these workers, each in a process and a folder of its own. */
async function play(stage: Stage, { name, names, tiers, shards, tierCount, certified }: Play) {
  const { flags, dir, data, relays, settings, signal, report } = stage;
  const startedMs = Date.now();
  const recorder = createElasticRecorder(names, tiers, settings.innerSteps);
  const folder = join(dir, name);
  await mkdir(folder, { recursive: true });
  const made = certified
    ? await certifyTiers(stage, { folder, names, tiers, tierCount })
    : undefined;
  const line = {
    dir: folder,
    workers: names.length,
    seed: flags.seed,
    file: flags.settings,
    settings,
    relays,
    corpus: data.file,
    spec: made?.file,
    tiers,
    shards,
    tierCount,
  };
  const processes = names.map((worker, i) => ({
    ...workerProcess(worker, i, { ...line, run: name }),
    // founders begin as soon as they see each other; the others are to be there from round 2 on, however long they take to start
    isLate: certified && tiers[i] === 0,
  }));
  let lastRoot = '';
  const onEvent = (worker: string, event: RunEvent) => {
    recorder.take(worker, event);
    if (event.type === 'round' && event.index + 1 === settings.rounds) lastRoot = event.digest;
    report(worker, event);
  };
  const exits = await runSwarm(processes, onEvent, signal);
  const played = recorder.document({
    wallSeconds: (Date.now() - startedMs) / 1000,
    corpus: { name: data.name, sha256: data.sha256, bytes: data.bytes },
    rounds: settings.rounds,
  });
  return { exits, played, spec: made?.spec, lastRoot };
}

/** The run of these tiers; its founders are those who have the whole model. */
async function certifyTiers(
  { flags, data, relays, settings, report, signal }: Stage,
  {
    folder,
    names,
    tiers,
    tierCount,
  }: Pick<Play, 'names' | 'tiers' | 'tierCount'> & { folder: string },
) {
  const hands: Hand[] = [];
  for (const worker of names) hands.push(await enlist(worker, folder));
  const [first, ...others] = hands.filter((_, i) => tiers[i] === 0);
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  return certify([first!, ...others], {
    name: 'elastic',
    dir: folder,
    corpus: data.file,
    relays,
    signal,
    settings: { ...file, ...settings, seed: flags.seed },
    rules: { tiers: tierCount, joinsPerRound: names.length, data: { shards: names.length } },
    onNotice: (message) => report(first!.name, { type: 'notice', message }),
  });
}

/** What the events of the run lead to, recomputed from the first round on. */
async function replayed(
  spec: RunSpec,
  { dir, relays, signal }: Stage,
  modelRoot: string,
): Promise<ReplayFound> {
  const { report, eventsFile } = await replayKept(spec, relays, dir, signal);
  const isFull = report.lines.every(({ checked }) => checked === 'full');
  const { ok, rounds, modelRoot: found } = report;
  return { ok: ok && isFull && found === modelRoot, rounds, modelRoot: found, eventsFile };
}

const fixed = (value: number | null | undefined, digits: number): string =>
  value === null || value === undefined || Number.isNaN(value) ? '–' : value.toFixed(digits);

const megabytes = (bytes: number | null): string =>
  bytes === null ? '–' : `${Math.round(bytes / 2 ** 20)} MiB`;

function tellEnd(
  document: ElasticDocument,
  exits: readonly Exit[],
  dir: string,
  json: boolean,
): number {
  if (json) writeOut(asJson(document));
  const say = (line: string) => (json ? writeNote(line) : writeOut(`${line}\n`));
  const failed = exits.filter(({ code, stopped }) => code !== 0 && !stopped);
  for (const { name, code, words } of failed) {
    say(`${name} failed (exit ${code})${words ? `: ${words}` : ''}`);
  }
  for (const { tier, validationLosses } of document.tiers) {
    const of = document.workers.filter((worker) => worker.tier === tier);
    const { width, share, secondsPerStep, peakBytes } = of[0]!;
    const losses = `${fixed(validationLosses[0], 3)} -> ${fixed(validationLosses.at(-1), 3)}`;
    const cost = `${fixed(secondsPerStep, 3)} s a step, ${megabytes(peakBytes)}`;
    say(
      `tier ${tier}, ${of.length} of ${document.workers.length} workers: ${width} wide, ${fixed(100 * share, 1)} % of the parameters; loss ${losses}; ${cost}`,
    );
  }
  const { alone, whole, aboveAlone, agreed } = document;
  for (const [words, control] of [
    ['one worker of the whole model alone', alone],
    ['as many workers of the whole model', whole],
  ] as const) {
    if (control)
      say(
        `${words}: loss ${fixed(control.validationLoss, 3)}, ${fixed(control.secondsPerStep, 3)} s a step, ${megabytes(control.peakBytes)}`,
      );
  }
  if (aboveAlone !== null) {
    const percent = 100 * (aboveAlone - 1);
    say(
      `the whole model among tiers: ${fixed(Math.abs(percent), 1)} % ${percent > 0 ? 'above' : 'below'} the loss of the one alone`,
    );
  }
  if (document.replay) {
    const { ok, rounds, modelRoot, eventsFile } = document.replay;
    say(
      ok
        ? `a replay of ${rounds} rounds finds the same model root, ${modelRoot.slice(0, 16)}…: nostrain replay --events ${eventsFile}`
        : `the run does NOT replay from ${eventsFile}`,
    );
  }
  if (failed.length === 0 && exits.some(({ stopped }) => stopped)) {
    say(`stopped before the end; what is there is in ${dir}`);
    return 130;
  }
  if (!agreed || failed.length > 0 || document.replay?.ok === false) {
    say(`the workers do NOT agree; their logs are in ${dir}`);
    return 1;
  }
  say('all workers hold the same bits wherever they hold the same values');
  return 0;
}
