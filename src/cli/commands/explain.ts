/** `nostrain explain`: why one worker's contribution to one round was or was not counted. */

import { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { explainRound } from '../../certified/records/explain.ts';
import { readKey } from '../../run/field.ts';
import { roundName, type WorkerId } from '../../run/ids.ts';
import { roundOption } from '../../terminal/flags.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeOut } from '../../terminal/output.ts';
import {
  addSourceFlags,
  askingRule,
  openSource,
  type SourceFlags,
  sourceOf,
} from '../shared/archive-source.ts';

interface Flags extends SourceFlags {
  readonly round: number;
  readonly worker: string;
  readonly json?: boolean;
}

export const explain = (): Command =>
  addSourceFlags(
    new Command('explain').description(
      "say why a worker's contribution to a round was or was not counted",
    ),
  )
    .addOption(roundOption('--round <n>', 'the round').makeOptionMandatory())
    .requiredOption('--worker <npub>', 'worker whose contribution it is')
    .option('--events <file>', 'read this instead of asking relays')
    .option('--json', 'print JSON')
    .action(async (flags: Flags, command: Command) => {
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
