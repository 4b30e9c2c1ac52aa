/** `nostrain aggregate-payloads INPUT…`: the weighted mean of deltas, summed in the order they are named. */
import { Command } from 'commander';
import { formatStateJson } from '../../formats/state-json.ts';
import { writeResult } from '../../terminal/output.ts';
import { aggregateWeightedDeltas, type WeightedDelta } from '../outer/weighted-deltas.ts';
import { readDelta } from './payloads.ts';

export const aggregatePayloads = (): Command =>
  new Command('aggregate-payloads')
    .description('print the mean of deltas; events weigh their examples, everything else weighs 1')
    .argument('<inputs...>', 'deltas (JSON states), payloads or gradient events')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (inputs: readonly string[], { output }: { output?: string }) => {
      const deltas: WeightedDelta[] = [];
      for (const input of inputs) deltas.push(await readDelta(input));
      await writeResult(formatStateJson(aggregateWeightedDeltas(deltas)), output);
    });
