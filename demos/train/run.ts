/** A demo from start to verdict: relay, corpus, workers, what they agree on. */
import { join } from 'node:path';
import { ConfigError } from '../../src/base/errors.ts';
import { type Scope, withScope } from '../../src/base/scope.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { startRelay } from '../../src/cli/commands/relay.ts';
import {
  assertReferenceDemo,
  referenceExamples,
  referenceResult,
  referenceWords,
  referenceWorker,
} from '../../src/python/commands/demo-linear.ts';
import type { PartialSettings, Settings } from '../../src/run/settings.ts';
import { commandLine } from '../../src/terminal/command-line.ts';
import { settingsFromFile } from '../../src/terminal/flags.ts';
import { onInterrupt } from '../../src/terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../src/terminal/output.ts';
import type { Saved } from '../../src/terminal/render/live.ts';
import { createReporter, type Reporter } from '../../src/terminal/reporter.ts';
import { enlist, type Hand } from '../certified/crew.ts';
import { prepareTuning } from '../finetune/tuning.ts';
import { certify } from '../shared/certify.ts';
import {
  type DemoData,
  demoExamples,
  demoFolder,
  demoPictures,
  demoSeries,
  demoText,
} from '../shared/data.ts';
import { createRecorder, type DemoDocument } from '../shared/document.ts';
import { type Exit, runSwarm } from '../shared/swarm.ts';
import { type DemoSettings, workerProcess } from '../shared/worker-line.ts';

export const demoNames = ['gpt', 'linear', 'finetune', 'series', 'images'] as const;
export type DemoName = (typeof demoNames)[number];

export interface DemoFlags {
  readonly workers?: number;
  readonly rounds?: number;
  readonly innerSteps?: number;
  readonly seed: number;
  readonly corpus?: string;
  readonly base?: string;
  readonly certified?: boolean;
  readonly relay?: readonly string[];
  readonly profile?: Settings['profile'];
  readonly settings?: string;
  readonly dir?: string;
  readonly reference?: boolean;
  readonly quick?: boolean;
  readonly long?: boolean;
  readonly headless?: boolean;
  readonly json?: boolean;
}

/** How much of a demo is played. */
interface Extent {
  readonly workers: number;
  readonly rounds: number;
  readonly innerSteps: number;
}

interface Demo {
  readonly settings: PartialSettings;
  readonly usual: Extent;
  readonly quick: Extent;
  /** So long, and split so far, that nobody alone gets near what all reach together (docs/benchmarks.md). */
  readonly long?: Extent;
}

const demos: Record<DemoName, Demo> = {
  gpt: {
    settings: { model: 'char-gpt', heartbeatInterval: 10 },
    usual: { workers: 4, rounds: 20, innerSteps: 25 },
    quick: { workers: 4, rounds: 3, innerSteps: 20 },
    long: { workers: 8, rounds: 20, innerSteps: 25 },
  },
  linear: {
    settings: { model: 'linear', heartbeatInterval: 10 },
    usual: { workers: 4, rounds: 5, innerSteps: 80 },
    quick: { workers: 4, rounds: 3, innerSteps: 40 },
    long: { workers: 4, rounds: 20, innerSteps: 80 },
  },
  finetune: {
    settings: { model: 'pretrained', heartbeatInterval: 10 },
    usual: { workers: 4, rounds: 8, innerSteps: 5 },
    quick: { workers: 4, rounds: 3, innerSteps: 5 },
  },
  series: {
    settings: { model: 'forecaster', heartbeatInterval: 10 },
    usual: { workers: 4, rounds: 8, innerSteps: 30 },
    quick: { workers: 4, rounds: 3, innerSteps: 20 },
  },
  images: {
    settings: { model: 'vit', heartbeatInterval: 10 },
    usual: { workers: 4, rounds: 12, innerSteps: 30 },
    quick: { workers: 4, rounds: 4, innerSteps: 30 },
  },
};

/** Who trains; more are numbered. */
const NAMES = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi'];

/** Returns the exit code: 0 when every worker finished and all agree. */
export const runDemo = (name: DemoName, flags: DemoFlags): Promise<number> =>
  withScope(async (scope) => {
    const startedMs = Date.now();
    if (flags.reference) assertReferenceDemo(name, flags);
    const interrupt = onInterrupt();
    scope.defer(interrupt.dispose);
    const extent = extentOf(name, flags);
    const names = Array.from({ length: extent.workers }, (_, i) => NAMES[i] ?? `worker-${i + 1}`);
    const mode = flags.json || flags.headless ? 'plain' : undefined;
    const stream = flags.json ? process.stderr : process.stdout;
    const dir = await demoFolder(name, flags.dir, scope);
    const saved = savedBy(name, dir, flags.corpus);
    const reporter = createReporter(mode, { title: `demo ${name}`, workers: names, stream, saved });
    scope.defer(() => reporter.close());
    const onNotice = (message: string) => reporter.notice(message);
    const { signal } = interrupt;
    const seen = { dir, onNotice, signal };
    const tuning =
      name === 'finetune'
        ? await prepareTuning({ ...flags, ...extent, ...seen, quick: flags.quick === true })
        : undefined;
    const data = tuning?.data ?? (await demoData(name, flags, extent, seen));
    onNotice(`data: ${data.name}, ${data.bytes} bytes, sha256 ${data.sha256.slice(0, 12)}…`);
    const settings = { ...tuning?.settings, ...(await demoSettings(name, flags, extent)) };
    await tuning?.before(settings);
    const relays = flags.relay ?? [await ownRelay(settings, scope, reporter)];
    const hands: Hand[] = [];
    for (const worker of names) hands.push(await enlist(worker, dir));
    const corpus = data.file;
    const { seed, settings: file } = flags;
    const certifying = { ...seen, name, settings: { ...settings, seed }, corpus, relays };
    const founders = [hands[0]!, ...hands.slice(1)] as const;
    const spec = flags.certified ? (await certify(founders, certifying)).file : undefined;
    const line = { dir, workers: extent.workers, seed, file, settings, relays, corpus, spec };
    const workers = names.map((worker, i) =>
      flags.reference
        ? referenceWorker(worker, i, { ...extent, dir, relays })
        : workerProcess(worker, i, line),
    );
    const recorder = createRecorder(names);
    const told = new Set<string>();
    const onEvent = (worker: string, event: RunEvent) => {
      recorder.take(worker, event);
      if (event.type !== 'notice') reporter.event(worker, event);
      // what all four have to say is said once
      else if (!told.has(event.message)) onNotice(event.message);
      if (event.type === 'notice') told.add(event.message);
    };
    const exits = await runSwarm(workers, onEvent, signal);

    const played = recorder.document({
      wallSeconds: (Date.now() - startedMs) / 1000,
      corpus: { name: data.name, sha256: data.sha256, bytes: data.bytes },
      rounds: settings.rounds,
    });
    const first = join(dir, names[0]!);
    const found = flags.reference ? { found: await referenceResult(first) } : undefined;
    const isWhole = exits.every(({ code }) => code === 0);
    const tuned = isWhole ? await tuning?.after(first) : undefined;
    const document: DemoDocument = Object.assign(played, found, tuned);
    reporter.close();
    return tellEnd(document, exits, { dir, json: flags.json === true, saved });
  });

interface Seen {
  readonly dir: string;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

async function demoData(
  name: DemoName,
  { corpus, reference, seed }: DemoFlags,
  { workers }: Extent,
  seen: Seen,
): Promise<DemoData> {
  if (name === 'gpt') return await demoText({ ...seen, corpus });
  if (name === 'series') return demoSeries(seed, { ...seen, corpus });
  if (name === 'images') return demoPictures(seed, { ...seen, corpus });
  return reference ? await referenceExamples(seen.dir) : demoExamples(seed, workers);
}

/** With the limits of most public relays; the reference's events need more. */
async function ownRelay(
  { profile }: PartialSettings,
  scope: Scope,
  reporter: Reporter,
): Promise<string> {
  const dialect = profile === 'nostrain/0' ? {} : ({ strict: 'strfry' } as const);
  const relay = await startRelay({ host: '127.0.0.1', port: 0, ...dialect });
  scope.defer(() => relay.close());
  reporter.notice(`relay: ${relay.url}`);
  return relay.url;
}

/** What was typed goes before what `--quick` and `--long` stand for. */
function extentOf(name: DemoName, flags: DemoFlags): Extent {
  if (flags.quick && flags.long) {
    throw new ConfigError('flag/extent', '--quick and --long exclude each other', {
      hint: 'leave one of them out',
    });
  }
  const { usual, quick, long = usual } = demos[name];
  const extent = flags.quick ? quick : flags.long ? long : usual;
  const { workers = extent.workers, rounds = extent.rounds } = flags;
  const { innerSteps = extent.innerSteps } = flags;
  return { workers, rounds, innerSteps };
}

async function demoSettings(
  name: DemoName,
  flags: DemoFlags,
  { rounds, innerSteps }: Extent,
): Promise<DemoSettings> {
  const file = flags.settings === undefined ? {} : await settingsFromFile(flags.settings);
  const { profile } = flags;
  const typed = {
    ...(profile === undefined ? {} : { profile }),
    ...(flags.rounds === undefined ? {} : { rounds }),
    ...(flags.innerSteps === undefined ? {} : { innerSteps }),
  };
  return { rounds, innerSteps, ...demos[name].settings, ...file, ...typed };
}

/** The verdict in words (or JSON), and the exit code. */
function tellEnd(
  document: DemoDocument,
  exits: readonly Exit[],
  { dir, json, saved }: { dir: string; json: boolean; saved: Saved },
): number {
  if (json) writeOut(asJson(document));
  const say = (line: string) => (json ? writeNote(line) : writeOut(`${line}\n`));
  const failed = exits.filter(({ code, stopped }) => code !== 0 && !stopped);
  for (const { name: worker, code, words } of failed) {
    say(`${worker} failed (exit ${code})${words ? `: ${words}` : ''}`);
  }
  const { agreed, workers, rounds, wallSeconds, found } = document;
  for (const line of found ? referenceWords(found) : []) say(line);
  if (agreed && failed.length === 0) {
    const digest = workers[0]?.stateDigest.slice(0, 16);
    const seconds = wallSeconds.toFixed(0);
    say(
      `all ${workers.length} workers hold the same model, bit for bit: ${digest}… after ${rounds.length} rounds, ${seconds} s`,
    );
    const { folder, sample } = saved;
    say(`it is saved in ${folder}`);
    if (sample !== undefined) say(`see more of it with: ${sample}`);
    return 0;
  }
  if (failed.length === 0 && exits.some(({ stopped }) => stopped)) {
    say(`stopped before the end; what is there is in ${dir}`);
    return 130;
  }
  say(`the workers do NOT agree; their logs are in ${dir}`);
  return 1;
}

/** Demos whose samples need the data again. */
const OF_CORPUS: Readonly<Partial<Record<DemoName, true>>> = { series: true, images: true };

/** Where the shared model is, and the line that shows what it has learned; all workers have the same, so the first one's will do. */
function savedBy(name: DemoName, dir: string, corpus: string | undefined): Saved {
  const folder = join(dir, NAMES[0]!);
  if (name === 'linear') return { folder };
  // what a forecast or a guess is made of is no part of the model
  const data = corpus !== undefined && name in OF_CORPUS ? ['--corpus', corpus] : [];
  return { folder, sample: commandLine(['sample', folder, ...data]) };
}
