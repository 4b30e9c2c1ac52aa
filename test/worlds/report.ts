/** What `npm run worlds` prints. */
import { createHash } from 'node:crypto';
import type { Report } from './batch.ts';
import type { World } from './world.ts';

/** Returns the one command that plays a world again. */
const commandOf = ({ seed }: World, size: string): string =>
  `npm run worlds -- --seed ${seed}${size === 'small' ? '' : ` --size ${size}`} --verbose`;

/** Returns the first violation of a world and the command that replays it; undefined if it has none. */
export function complaintOf({ world, violations }: Report, size: string): string | undefined {
  const [first] = violations;
  return first && `${first.invariant}: ${first.message}\n  ${commandOf(world, size)}`;
}

/** One line about a world. */
export function lineOf({ world, seconds, goodput, traceHash, cpuSeconds }: Report): string {
  const { seed, run, workers, relays, rounds, faults } = world;
  const what = faults.map(({ fault }) => fault).join(', ') || 'no faults';
  const size = `${run}, ${workers} workers, ${relays} relays, ${rounds} rounds`;
  const time = `${seconds.toFixed(0)} s in ${cpuSeconds.toFixed(2)} s`;
  const counted = `${goodput.toFixed(0)} counted an hour`;
  return `world ${seed}: ${size}; ${what}; ${time}, ${counted}; ${traceHash}`;
}

export interface Summary {
  readonly worlds: number;
  /** Worlds in which an invariant broke. */
  readonly violations: number;
  /** Over the hashes of all worlds, in order of their seeds. */
  readonly traceHash: string;
  /** Worlds by invariant that broke. */
  readonly broken: Readonly<Record<string, number>>;
  readonly failing: readonly number[];
  readonly worldsPerSecond: number;
  /** Contributions counted in an hour of a world's clock, on average. */
  readonly goodput: number;
  readonly cpuSecondsPerWorld: number;
  /** Of worlds with real signatures, most of which train on onnxruntime; 0 without such a world. */
  readonly cpuSecondsPerRealWorld: number;
}

export function summaryOf(reports: readonly Report[], wallSeconds: number): Summary {
  const inOrder = [...reports].sort((a, b) => a.world.seed - b.world.seed);
  const hash = createHash('sha256');
  for (const { traceHash } of inOrder) hash.update(traceHash);
  const failing = inOrder.filter(({ violations }) => violations.length > 0);
  const broken: Record<string, number> = {};
  for (const { violations } of failing) {
    for (const name of new Set(violations.map(({ invariant }) => invariant))) {
      broken[name] = (broken[name] ?? 0) + 1;
    }
  }
  const cpuOf = (isReal: boolean) =>
    reports.filter(({ world }) => world.isReal === isReal).map(({ cpuSeconds }) => cpuSeconds);
  return {
    ...{ worlds: reports.length, violations: failing.length },
    ...{ traceHash: hash.digest('hex').slice(0, 16), broken },
    failing: failing.map(({ world }) => world.seed),
    worldsPerSecond: round(reports.length / wallSeconds),
    goodput: mean(reports.map(({ goodput }) => goodput)),
    cpuSecondsPerWorld: mean(cpuOf(false)),
    cpuSecondsPerRealWorld: mean(cpuOf(true)),
  };
}

const mean = (values: readonly number[]): number =>
  round(values.reduce((sum, each) => sum + each, 0) / Math.max(1, values.length));

const round = (value: number): number => Math.round(1000 * value) / 1000;
