/** The command lines of a demo's workers: of a run that averages, and of a certified one. */
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fields, type PartialSettings } from '../../../run/settings.ts';
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
}

/** What a demo may set beside its rounds. */
const TYPED = [
  ...(['profile', 'owners', 'fragments', 'base', 'context', 'batchSize'] as const),
  ...(['targets', 'localLearningRate'] as const),
];

const flagOf = (name: (typeof TYPED)[number], value: string | number | undefined) =>
  value === undefined ? [] : [fields[name].flag.split(' ')[0]!, String(value)];

/** One worker; the first one evaluates for all, since all hold the same bits. */
export function workerProcess(name: string, index: number, line: WorkerLine): WorkerProcess {
  const { dir, workers, settings, relays, corpus, spec } = line;
  const threads = Math.max(1, Math.floor(availableParallelism() / workers));
  const folder = join(dir, name);
  const args = [
    ...(spec === undefined ? trainLine(index, line) : joinLine(folder, spec, line)),
    ...['--dir', folder, '--threads', `${threads}`, '--report', 'ndjson'],
    ...['--heartbeat-interval', `${settings.heartbeatInterval ?? 10}`],
    ...relays.flatMap((url) => ['--relay', url]),
    ...(corpus === undefined ? [] : ['--corpus', corpus]),
    ...(index === 0 ? [] : ['--no-evaluate']),
  ];
  return { name, args };
}

const trainLine = (index: number, { workers, seed, settings, file }: WorkerLine) => [
  ...['run-training', '--run', `demo-${settings.model}`, '--model', settings.model ?? 'linear'],
  ...['--shard', `${index + 1}/${workers}`, '--sync', `strict:${workers}`, '--seed', `${seed}`],
  ...['--rounds', `${settings.rounds}`, '--inner-steps', `${settings.innerSteps}`],
  ...TYPED.flatMap((one) => flagOf(one, settings[one])),
  ...(file === undefined ? [] : ['--settings', file]),
];

/** All but the base is in the spec. */
const joinLine = (folder: string, spec: string, { workers, settings }: WorkerLine) => [
  ...['run', 'join', spec, '--key-file', join(folder, 'key'), '--wait-for', `${workers}`],
  ...flagOf('base', settings.base),
];
