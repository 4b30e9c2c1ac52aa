/** `nostrain explain`: prints why one worker's contribution to one round was or was not counted. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { whileSlow } from '../../base/slow.ts';
import { explainRound } from '../../certified/records/explain.ts';
import { readKey } from '../../run/field.ts';
import { roundName, type WorkerId } from '../../run/ids.ts';
import {
  commandWith,
  type FlagValues,
  required,
  roundFlag,
  text,
  toggle,
} from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { askingRule, openSource, sourceFlags, sourceOf } from '../shared/archive-source.ts';

const explainFlags = {
  ...sourceFlags,
  round: required(roundFlag('<n>', 'the round')),
  worker: required(text('<npub>', 'author of the contribution')),
  events: text('<file>', 'archive to read instead of asking relays'),
  json: toggle('print JSON'),
};

type ExplainFlags = FlagValues<typeof explainFlags>;

export const explain = (): Command =>
  commandWith(
    'explain',
    "print why a worker's contribution to a round was or was not counted",
    explainFlags,
  ).action(async (flags: ExplainFlags, command: Command) => {
    refuseUnused(command, [askingRule(flags)]);
    await interruptibly(async (signal) => {
      const worker = workerKeyOf(flags.worker);
      const { round } = flags;
      const source = await sourceOf(flags, signal);
      const archive = await openSource(flags, source);
      const explanation = await whileSlow('replaying the run', writeNote, () =>
        explainRound(archive, { ...source.options, worker, round }),
      );
      if (explanation === undefined) {
        throw new ConfigError(
          'flag/round',
          `${roundName(round)} of the run is not in these events`,
          {
            hint: '`nostrain replay` with the same flags lists the rounds that they have',
          },
        );
      }
      const text = `${explanation.why.join('\n')}\n`;
      writeOut(flags.json ? asJson({ worker, round, ...explanation }) : text);
    });
  });

/** Returns the key that `--worker` names. Throws `flag/worker` if it is not a public key. */
export function workerKeyOf(text: string): WorkerId {
  const key = readKey(text);
  if (key !== undefined) return key;
  throw new ConfigError('flag/worker', `--worker ${text} is not a public key`, {
    hint: 'give npub1… or 64 hex digits',
  });
}
