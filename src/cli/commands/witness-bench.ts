/** `nostrain witness bench`: what finding the witnesses costs, beside a coordinator that tells them. */
import { Command } from 'commander';
import { positiveFlag, wholeFlag } from '../../terminal/flags.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { formatBench, runBench } from '../witness/bench.ts';
import { many, seatsFlag } from '../witness/flags.ts';

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
    .description('what finding the witnesses costs, beside a coordinator that tells them')
    .option('--keys <n>', 'members, repeatable (default: 100 to 1000000)', many(wholeFlag('--keys', 1, MOST_KEYS))) // biome-ignore format: one option
    .option('-k, --seats <n>', 'seats', seatsFlag, 16)
    .option('--rtt-ms <ms>', 'modelled coordinator: round trip', positiveFlag('--rtt-ms'), 50)
    .option('--reads-per-second <n>', 'modelled coordinator: reads its relay answers (default: what a relay here does)', positiveFlag('--reads-per-second')) // biome-ignore format: one option
    .option('--json', 'tell it as JSON')
    .action(async ({ keys, seats, rttMs, readsPerSecond, json }: BenchFlags) => {
      const sizes = keys ?? [100, 1000, 10_000, 100_000, 1_000_000];
      const found = await runBench({ keys: sizes, seats, rttMs, readsPerSecond }, (words) =>
        writeNote(words),
      );
      writeOut(json ? asJson(found) : formatBench(found));
    });
