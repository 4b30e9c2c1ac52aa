/** The command lines of a demo's workers: of a run that averages, and of a certified one. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fields, type PartialSettings } from '../../src/run/settings.ts';
import type { WorkerProcess } from './swarm.ts';

export type DemoSettings = PartialSettings & {
  readonly rounds: number;
  readonly innerSteps: number;
};

export interface WorkerLine {
  /** The folder of all workers. */
  readonly dir: string;
  readonly workers: number;
  readonly seed: number;
  /** Other settings, as a file. */
  readonly file: string | undefined;
  readonly settings: DemoSettings;
  readonly relays: readonly string[];
  readonly corpus: string | undefined;
  /** The run spec of a certified run. */
  readonly spec: string | undefined;
  /** By worker, which tier of width it trains; the first of each tier evaluates. */
  readonly tiers?: readonly number[];
  /** The smallest tier of the run. */
  readonly tierCount?: number;
  /** Into how many parts the data is cut; default one for each worker. */
  readonly shards?: number;
  /** Default by the model. */
  readonly run?: string;
}

/** What a demo may set beside its rounds. */
const TYPED = [
  'profile',
  'owners',
  'fragments',
  'base',
  'context',
  'batchSize',
  'targets',
  'localLearningRate',
  'width',
  'layers',
  'heads',
  'ffn',
] as const;

const flagOf = (name: (typeof TYPED)[number], value: string | number | undefined) =>
  value === undefined ? [] : [fields[name].flag.split(' ')[0]!, String(value)];

/** One worker; the first one evaluates for all, since all hold the same bits; of tiers, the first one of each. */
export function workerProcess(name: string, index: number, line: WorkerLine): WorkerProcess {
  const { dir, workers, settings, relays, corpus, spec } = line;
  const threads = Math.max(1, Math.floor(availableParallelism() / workers));
  const folder = join(dir, name);
  const args = [
    ...(spec === undefined ? trainLine(index, line) : joinLine(index, folder, spec, line)),
    '--dir',
    folder,
    '--threads',
    `${threads}`,
    '--report',
    'ndjson',
    '--heartbeat-interval',
    `${settings.heartbeatInterval ?? 10}`,
    ...relays.flatMap((url) => ['--relay', url]),
    ...(corpus === undefined ? [] : ['--corpus', corpus]),
    ...(isFirst(index, line) ? [] : ['--no-evaluate']),
  ];
  return { name, args };
}

const isFirst = (index: number, { tiers }: WorkerLine): boolean =>
  index === (tiers ? tiers.indexOf(tiers[index]!) : 0);

const tierFlags = (index: number, { tiers = [], tierCount = 0 }: WorkerLine) =>
  tierCount === 0 ? [] : ['--tiers', `${tierCount}`, '--tier', `${tiers[index]}`];

const trainLine = (index: number, line: WorkerLine) => [
  ...runFlags(line),
  '--shard',
  `${index + 1}/${line.shards ?? line.workers}`,
  ...stepFlags(line),
  ...tierFlags(index, line),
];

const runFlags = ({ settings, run = settings.model }: WorkerLine) => [
  'run-training',
  '--run',
  `demo-${run}`,
  '--model',
  settings.model ?? 'linear',
];

const stepFlags = ({ workers, seed, settings, file }: WorkerLine) => [
  '--sync',
  `strict:${workers}`,
  '--seed',
  `${seed}`,
  '--rounds',
  `${settings.rounds}`,
  '--inner-steps',
  `${settings.innerSteps}`,
  ...TYPED.flatMap((one) => flagOf(one, settings[one])),
  ...(file === undefined ? [] : ['--settings', file]),
];

/** All but the base is in the spec; of tiers also whose part of the text is whose, since not all are founders. */
const joinLine = (
  index: number,
  folder: string,
  spec: string,
  { workers, settings, tiers, tierCount = 0, shards = workers }: WorkerLine,
) => [
  'run',
  'join',
  spec,
  '--key-file',
  join(folder, 'key'),
  '--wait-for',
  `${workers}`,
  ...flagOf('base', settings.base),
  ...(tierCount > 0 ? ['--tier', `${tiers![index]}`] : []),
  ...(tiers ? ['--shard', `${index + 1}/${shards}`] : []),
];
