/** `nostrain aggregate-round`: the mean of one round's gradients, straight from relays. */
import { Command } from 'commander';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { safeLine } from '../../base/safe-text.ts';
import { indentedJson } from '../../formats/python-json.ts';
import { formatStateJson } from '../../formats/state-json.ts';
import type { Params } from '../../tensor/params.ts';
import { writeNote, writeResult } from '../../terminal/output.ts';
import { wholeDelta } from '../codec/delta-payload.ts';
import { collectGradients, type GradientsFound, weightOf } from '../collect/gradients.ts';
import { gradientsMembers } from '../collect/members.ts';
import { aggregateWeightedDeltas } from '../outer/weighted-deltas.ts';
import { addRoundFlags, type RoundFlags, roundQuery } from './collect/listening-flags.ts';
import { assertNotNative } from './collect/native-wire.ts';
import { machinePorts, readRelays } from './collect/relay-flags.ts';

interface Flags extends RoundFlags {
  readonly summaryOut?: string;
  readonly output?: string;
}

export const aggregateRound = (ports = machinePorts): Command =>
  addRoundFlags(
    new Command('aggregate-round').description(
      'collect one round from relays and print the mean of its deltas, weighted by examples',
    ),
  )
    .option('--summary-out <file>', 'write there what was collected, as JSON without the events')
    .option('-o, --output <file>', 'write it there instead of stdout')
    .action(async (flags: Flags) => {
      const found = await readRelays(collectGradients, roundQuery(flags), flags, ports);
      await assertNotNative('aggregate-round', found, flags, ports);
      const mean = meanOf(found);
      noteBases(found);
      await writeResult(formatStateJson(mean), flags.output);
      if (flags.summaryOut !== undefined) {
        await writeResult(`${indentedJson(gradientsMembers(found, false))}\n`, flags.summaryOut);
      }
    });

function meanOf({ events, run, round, failed }: GradientsFound): Params {
  if (events.length === 0) {
    const down = failed.map(({ relay, message }) => `; ${relay}: ${safeLine(message)}`).join('');
    throw new RelayError('relay/empty-round', `no gradient of run ${run}, round ${round}${down}`, {
      hint: 'look for the round with collect-events, or wait longer with --idle-timeout S',
    });
  }
  const deltas = events.map(({ read }) => ({
    delta: wholeDelta(read.payload),
    weight: weightOf(read),
    name: `the gradient of ${read.said.worker}`,
  }));
  try {
    return aggregateWeightedDeltas(deltas);
  } catch (error) {
    throw wordMismatch(error);
  }
}

/** A delta of another model is the doing of whoever sent it, not of a file. */
function wordMismatch(cause: unknown): unknown {
  if (!(cause instanceof ConfigError)) return cause;
  const hint = 'not everybody in this run trains the same model: use another --run name';
  return new ConfigError(cause.code, cause.message, { hint, cause });
}

/** The mean of updates made from different states is not a step of either; the Python reference takes it without a word. */
function noteBases({ events }: GradientsFound): void {
  const bases = new Set(events.map(({ read }) => read.said.model));
  if (bases.size < 2) return;
  writeNote(`note: these gradients were made from ${bases.size} different states`);
}
