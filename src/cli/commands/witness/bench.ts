/** `nostrain witness bench`: what finding the witnesses costs, beside a coordinator that tells them. */
import { Command } from 'commander';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import { positive, wholeFlag } from '../../../terminal/flags.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { MOST_MEASURED, measureCoordinator, modelCoordinator } from './coordinator.ts';
import { costOfDraws, type DrawCosts } from './draw-bench.ts';
import { many, seatsFlag } from './flags.ts';

const MOST_KEYS = 1_000_000;

interface BenchFlags {
  readonly keys?: readonly number[];
  readonly seats: number;
  readonly rttMs: number;
  readonly readsPerSecond?: number;
  readonly json?: boolean;
}

export const witnessBench = (): Command =>
  new Command('bench')
    .description(
      'measure what drawing the witnesses costs, against a coordinator that publishes them',
    )
    .option(
      '--keys <n>',
      'members, repeatable (default: 100 to 1000000)',
      many(wholeFlag('--keys', 1, MOST_KEYS)),
    )
    .option('-k, --seats <n>', 'seats of the committee', seatsFlag, 16)
    .addOption(positive('--rtt-ms <ms>', 'modelled coordinator: round trip').default(50))
    .addOption(
      positive(
        '--reads-per-second <n>',
        'modelled coordinator: reads its relay answers (default: what a relay here does)',
      ),
    )
    .option('--json', 'print JSON')
    .action(async ({ keys, seats, rttMs, readsPerSecond, json }: BenchFlags) => {
      const sizes = keys ?? [100, 1000, 10_000, 100_000, 1_000_000];
      const found = await runBench({ keys: sizes, seats, rttMs, readsPerSecond }, (words) =>
        writeNote(words),
      );
      writeOut(json ? asJson(found) : formatBench(found));
    });

export interface BenchInput {
  readonly keys: readonly number[];
  readonly seats: number;
  /** Of the modelled coordinator. */
  readonly rttMs: number;
  /** Reads a relay answers; undefined takes what the largest measurement shows. */
  readonly readsPerSecond: number | undefined;
}

export interface BenchRow extends DrawCosts {
  readonly keys: number;
  readonly coordinatorMs: number;
  readonly isMeasured: boolean;
  /** Of one rotation with a coordinator; the draw needs none. */
  readonly messages: number;
}

export interface Bench {
  readonly seats: number;
  readonly rttMs: number;
  readonly readsPerSecond: number;
  readonly rows: readonly BenchRow[];
}

/** Members in draws that nobody counts, until the engine has compiled everything. */
const WARM_UP = 2000;

/** Takes the sizes in ascending order, so that the memory of a row holds nothing of a larger one. */
async function runBench(
  { keys, seats, rttMs, readsPerSecond }: BenchInput,
  tell: (words: string) => void,
): Promise<Bench> {
  const sizes = keys.toSorted((a, b) => a - b);
  costOfDraws(WARM_UP, seats);
  const drawn: (DrawCosts & { readonly keys: number })[] = [];
  for (const size of sizes) {
    tell(`drawing ${seats} of ${formatCount(size)}`);
    drawn.push({ keys: size, ...costOfDraws(size, seats) });
  }
  const measured = new Map<number, number>();
  const few = sizes.filter((size) => size <= MOST_MEASURED);
  for (const size of new Set(readsPerSecond === undefined ? [...few, MOST_MEASURED] : few)) {
    tell(`coordinator: 1 write and ${formatCount(size)} reads over a relay here`);
    measured.set(size, await measureCoordinator(size, seats));
  }
  const rate = readsPerSecond ?? (1000 * MOST_MEASURED) / measured.get(MOST_MEASURED)!;
  const rows = drawn.map((row) => {
    const ms = measured.get(row.keys);
    const model = modelCoordinator(row.keys, { rttMs, readsPerSecond: rate });
    return {
      ...row,
      coordinatorMs: ms ?? model,
      isMeasured: ms !== undefined,
      messages: 1 + row.keys,
    };
  });
  return { seats, rttMs, readsPerSecond: rate, rows };
}

function formatBench({ seats, rttMs, readsPerSecond, rows }: Bench): string {
  const heads = ['members', 'cold', 'new round', 'cached', 'memory', 'coordinator', 'its messages'];
  const cells = rows.map((row) => [
    formatCount(row.keys),
    ...[row.coldMs, row.roundMs, row.cachedMs].map(wordMs),
    formatBytes(row.memoryBytes),
    `${wordMs(row.coordinatorMs)} ${row.isMeasured ? 'measured' : 'modelled'}`,
    formatCount(row.messages),
  ]);
  const lines = [
    `${seats} witnesses, drawn by everybody alone (no message) or told by a coordinator`,
    '',
    ...alignColumns([heads, ...cells], 110),
    '',
    'Processor time. cold: from members as text. new round: members read. cached: one more of its draws.',
    'memory: the most this process held above its start, garbage included.',
    `measured: a relay of ours and its readers on loopback. modelled: 2 x ${rttMs} ms and ${formatCount(readsPerSecond)} reads/s.`,
  ];
  return `${lines.join('\n')}\n`;
}

const wordMs = (ms: number): string => `${ms < 10 ? ms.toFixed(2) : formatCount(ms)} ms`;
