/** `nostrain explain`: why one worker's contribution to one round was or was not counted. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
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
import { asJson, writeOut } from '../../terminal/output.ts';
import { askingRule, openSource, sourceFlags, sourceOf } from '../shared/archive-source.ts';

const explainFlags = {
  ...sourceFlags,
  round: required(roundFlag('<n>', 'the round')),
  worker: required(text('<npub>', 'worker whose contribution it is')),
  events: text('<file>', 'read this instead of asking relays'),
  json: toggle('print JSON'),
};

type ExplainFlags = FlagValues<typeof explainFlags>;

export const explain = (): Command =>
  commandWith(
    'explain',
    "say why a worker's contribution to a round was or was not counted",
    explainFlags,
  ).action(async (flags: ExplainFlags, command: Command) => {
    refuseUnused(command, [askingRule(flags)]);
    await interruptibly(async (signal) => {
      const worker = workerKeyOf(flags.worker);
      const { round } = flags;
      const source = await sourceOf(flags, signal);
      const archive = await openSource(flags, source);
      const told = await explainRound(archive, { ...source.options, worker, round });
      if (told === undefined) {
        throw new ConfigError('flag/round', `the run has no ${roundName(round)} that is here`, {
          hint: '`nostrain replay` with the same flags lists the rounds that are',
        });
      }
      const text = `${told.why.join('\n')}\n`;
      writeOut(flags.json ? asJson({ worker, round, ...told }) : text);
    });
  });

/** The key that `--worker` names. */
export function workerKeyOf(text: string): WorkerId {
  const key = readKey(text);
  if (key !== undefined) return key;
  throw new ConfigError('flag/worker', `--worker ${text} is not a public key`, {
    hint: 'give npub1… or 64 hex digits',
  });
}
