/** `nostrain demo gpt|linear|finetune|series|images|onnx`: worker processes that share only a relay train one model. */
import { join } from 'node:path';
import { ConfigError } from 'nostrain';
import { createRelay } from 'nostrain/relay';
import { localName } from '../../src/node/files/data-home.ts';
import type { PartialSettings } from '../../src/run/settings.ts';
import { commandLine } from '../../src/terminal/command-line.ts';
import { settingsFromFile } from '../../src/terminal/options.ts';
import type { Saved } from '../../src/terminal/render/live.ts';
import { prepareTuning, type Tuning } from '../finetune/tuning.ts';
import {
  assertReferenceDemo,
  referenceExamples,
  referenceResult,
  referenceWords,
  referenceWorker,
} from '../linear/reference.ts';
import { digitsModel } from '../onnx/digits.ts';
import { enlist, patientRules } from '../shared/certified.ts';
import {
  type DemoData,
  demoDigits,
  demoExamples,
  demoPictures,
  demoSeries,
  demoText,
} from '../shared/data.ts';
import { type DemoDocument, documentOf } from '../shared/document.ts';
import { type Played, playRun, runLogged } from '../shared/play.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import type { Exit } from '../shared/swarm.ts';
import {
  type Extent,
  type ExtentLimits,
  fitExtent,
  secondsOf,
  timeSteps,
  wordPlan,
} from './extent.ts';

interface Demo {
  readonly model: 'char-gpt' | 'linear' | 'pretrained' | 'forecaster' | 'vit' | 'onnx-images';
  /** File of the model, if it is not built in. */
  readonly base?: string;
  readonly usual: Extent;
  readonly quick: Extent;
  /** ExtentLimits of the usual and the quick extent on a slow machine. */
  readonly limits?: { readonly usual: ExtentLimits; readonly quick: ExtentLimits };
  /** Extent with --long: enough shards that one worker alone is far behind the shared model (docs/results/demo.md). */
  readonly long?: Extent;
  data(stage: Stage, extent: Extent): DemoData | Promise<DemoData>;
  /** Set if sampling the trained model needs the data. */
  readonly sampleNeedsData?: true;
}

const demos = {
  gpt: {
    model: 'char-gpt',
    usual: { workers: 4, rounds: 20, innerSteps: 25 },
    quick: { workers: 4, rounds: 3, innerSteps: 20 },
    limits: {
      usual: { seconds: 300, fewestRounds: 6 },
      quick: { seconds: 60, fewestRounds: 3 },
    },
    long: { workers: 8, rounds: 20, innerSteps: 25 },
    data: demoText,
  },
  linear: {
    model: 'linear',
    usual: { workers: 4, rounds: 5, innerSteps: 80 },
    quick: { workers: 4, rounds: 3, innerSteps: 40 },
    long: { workers: 4, rounds: 20, innerSteps: 80 },
    data: ({ flags, dir }, { workers }) =>
      flags.reference ? referenceExamples(dir) : demoExamples(flags.seed, workers),
  },
  finetune: {
    model: 'pretrained',
    usual: { workers: 4, rounds: 8, innerSteps: 5 },
    quick: { workers: 4, rounds: 3, innerSteps: 5 },
    data: demoText,
  },
  series: {
    model: 'forecaster',
    usual: { workers: 4, rounds: 8, innerSteps: 30 },
    quick: { workers: 4, rounds: 3, innerSteps: 20 },
    data: demoSeries,
    sampleNeedsData: true,
  },
  images: {
    model: 'vit',
    usual: { workers: 4, rounds: 12, innerSteps: 30 },
    quick: { workers: 4, rounds: 4, innerSteps: 30 },
    data: (stage) => demoPictures(stage),
    sampleNeedsData: true,
  },
  onnx: {
    model: 'onnx-images',
    base: digitsModel,
    usual: { workers: 3, rounds: 10, innerSteps: 20 },
    quick: { workers: 3, rounds: 3, innerSteps: 20 },
    data: demoDigits,
  },
} as const satisfies Record<string, Demo>;

export type TrainingDemo = keyof typeof demos;

/** Names of the first workers; further workers are numbered. */
const NAMES = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi'];

/** Runs the demo. Returns exit code 0 if every worker finished and all agree. */
export async function runTrainingDemo(name: TrainingDemo, flags: DemoFlags): Promise<number> {
  const demo: Demo = demos[name];
  if (flags.reference) assertReferenceDemo(name, flags);
  const wanted = extentOf(demo, flags);
  const names = Array.from({ length: wanted.workers }, (_, i) => NAMES[i] ?? `worker-${i + 1}`);
  // all workers end with the same model, so the first folder is shown
  const saved = (dir: string) => savedIn(join(dir, names[0]!), name, flags);
  return await onStage(flags, { name, workers: names, saved }, async (stage) => {
    const { dir, onNotice } = stage;
    const extent = await plannedExtent(demo, wanted, stage);
    const tuning = name === 'finetune' ? await prepareTuning(stage, extent.workers) : undefined;
    const data = tuning?.data ?? (await demo.data(stage, extent));
    onNotice(`data: ${data.name}, ${data.bytes} bytes, sha256 ${data.sha256.slice(0, 12)}…`);
    const settings = await settingsFor(demo, flags, extent, tuning);
    await tuning?.before(settings);
    const relays = flags.relay ?? [await startRelay(settings, stage)];
    const rules = flags.certified ? patientRules : undefined;
    const plan = { name, run: demo.model, dir, names, settings, relays, corpus: data.file, rules };
    const { log, exits } = flags.reference
      ? await playReference(stage, { ...extent, relays }, names)
      : await playRun(stage, plan);
    const { rounds } = settings;
    const wallSeconds = stage.wallSeconds();
    const played = documentOf(log, { names, rounds, corpus: data, wallSeconds });
    const first = join(dir, names[0]!);
    const reference = flags.reference ? { found: await referenceResult(first) } : undefined;
    const isWhole = exits.every(({ code }) => code === 0);
    const tuned = isWhole ? await tuning?.after(first) : undefined;
    return printVerdict(Object.assign(played, reference, tuned), exits, stage, saved(dir));
  });
}

/** Returns the extent of the run: flags override --settings, which overrides --quick and --long. */
function extentOf({ usual, quick, long = usual }: Demo, flags: DemoFlags): Extent {
  if (flags.quick && flags.long) {
    throw new ConfigError('flag/extent', '--quick and --long exclude each other', {
      hint: 'leave one of them out',
    });
  }
  const extent = flags.quick ? quick : flags.long ? long : usual;
  const { workers = extent.workers, rounds = extent.rounds } = flags;
  const { innerSteps = extent.innerSteps } = flags;
  return { workers, rounds, innerSteps };
}

/** Returns the extent that fits into the time limit on this machine; the extent given by flags is not changed. */
async function plannedExtent(
  { limits }: Demo,
  wanted: Extent,
  { flags, onNotice }: Stage,
): Promise<Extent> {
  const { rounds, innerSteps, workers, settings, profile, long } = flags;
  const given = [rounds, innerSteps, workers, settings, profile, long];
  if (limits === undefined || given.some((flag) => flag !== undefined)) return wanted;
  onNotice('timing a few steps on this machine');
  const time = await timeSteps(wanted.workers);
  const extent = fitExtent(wanted, time, flags.quick ? limits.quick : limits.usual);
  onNotice(wordPlan(extent, wanted, secondsOf(extent, time)));
  return extent;
}

type RunSettings = PartialSettings & { readonly rounds: number };

async function settingsFor(
  { model, base }: Demo,
  flags: DemoFlags,
  { rounds, innerSteps }: Extent,
  tuning: Tuning | undefined,
): Promise<RunSettings> {
  const { seed, profile } = flags;
  return {
    ...tuning?.settings,
    ...(base !== undefined && { base }),
    rounds,
    innerSteps,
    model,
    heartbeatInterval: 10,
    ...(flags.settings === undefined ? {} : await settingsFromFile(flags.settings)),
    ...(profile === undefined ? {} : { profile }),
    ...(flags.rounds === undefined ? {} : { rounds }),
    ...(flags.innerSteps === undefined ? {} : { innerSteps }),
    seed,
  };
}

/** Starts a relay with the limits of most public relays, or higher ones for events of the Python reference. */
async function startRelay(
  { profile }: PartialSettings,
  { scope, onNotice }: Stage,
): Promise<string> {
  const relay = await createRelay(profile === 'nostrain/0' ? {} : { strict: 'strfry' });
  scope.defer(() => relay.close());
  onNotice(`relay: ${relay.url}`);
  return relay.url;
}

/** Runs the workers of the linear demo of the Python reference. */
async function playReference(
  { dir, report, signal }: Stage,
  extent: Extent & { readonly relays: readonly string[] },
  names: readonly string[],
): Promise<Played> {
  for (const worker of names) await enlist(worker, dir);
  const workers = names.map((worker, i) => referenceWorker(worker, i, { ...extent, dir }));
  return await runLogged(workers, report, signal);
}

function printVerdict(
  document: DemoDocument,
  exits: readonly Exit[],
  stage: Stage,
  { folder, sample }: Saved,
): number {
  const { say } = stage;
  const failed = stage.end(document, exits);
  const { agreed, workers, rounds, wallSeconds, found: reference } = document;
  for (const line of reference ? referenceWords(reference) : []) say(line);
  if (agreed && !failed) {
    const digest = workers[0]?.stateDigest.slice(0, 16);
    const model = `the same model, bit for bit: ${digest}…`;
    const seconds = wallSeconds.toFixed(0);
    say(`all ${workers.length} workers have ${model} after ${rounds.length} rounds, ${seconds} s`);
    say(`it is saved in ${folder}`);
    if (sample !== undefined) say(`sample from it with: ${sample}`);
    return 0;
  }
  return stage.endWithoutAgreement(exits);
}

/** Returns the folder of the shared model, and the command that samples from it. */
function savedIn(folder: string, name: TrainingDemo, { corpus }: DemoFlags): Saved {
  if (name === 'linear' || name === 'onnx') return { folder };
  const demo: Demo = demos[name];
  const data = corpus !== undefined && demo.sampleNeedsData ? ['--corpus', corpus] : [];
  return { folder, sample: commandLine(['sample', localName(folder), ...data]) };
}
