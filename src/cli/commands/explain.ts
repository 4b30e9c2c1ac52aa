/** `nostrain explain`: prints why the contributions of workers to one round were or were not counted. */

import { ConfigError } from '../../base/errors.ts';
import { whileSlow } from '../../base/slow.ts';
import type { Opened } from '../../certified/records/archive.ts';
import {
  explainRound,
  explainWorkers,
  type RoundQuestion,
} from '../../certified/records/explain.ts';
import { roundName } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import { defineCommand } from '../../terminal/command.ts';
import { type FlagValues, required, roundFlag, text, toggle } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { askingRule, historySourceFlags, onHistory } from '../shared/archive-source.ts';
import { workerNamed } from '../shared/worker-flag.ts';

const explainFlags = {
  ...historySourceFlags,
  round: required(roundFlag('<n>', 'the round')),
  worker: text('<npub>', 'author of the contribution (default: all of the round)'),
  json: toggle('print JSON'),
};

type ExplainFlags = FlagValues<typeof explainFlags>;

export const explain = defineCommand({
  name: 'explain',
  help: 'print why contributions to a round were or were not counted',
  args: [['[run]', 'the same as --run']],
  flags: explainFlags,
  async run(typed, { args: [run], command }) {
    const flags = run === undefined ? typed : { ...typed, run };
    refuseUnused(command, [askingRule(flags)]);
    await onHistory(flags, async (archive, { options }) => {
      const question = { ...options, round: flags.round };
      const print = flags.worker === undefined ? printAll : printOne;
      const isThere = await whileSlow('replaying the run', writeNote, () =>
        print(archive, question, flags),
      );
      if (isThere) return;
      throw new ConfigError(
        'flag/round',
        `${roundName(flags.round)} of the run is not in these events`,
        { hint: '`nostrain replay` with the same flags lists the rounds that they have' },
      );
    });
  },
});

/** Prints the answer about one worker; returns false if the archive does not reach the round. */
async function printOne(
  archive: Opened,
  question: RoundQuestion,
  flags: ExplainFlags,
): Promise<boolean> {
  const { round } = question;
  const worker = workerNamed(flags.worker!, new Set(archive.events.map(({ pubkey }) => pubkey)));
  const explanation = await explainRound(archive, { ...question, worker });
  if (!explanation) return false;
  const text = `${explanation.why.join('\n')}\n`;
  writeOut(flags.json ? asJson({ worker, round, ...explanation }) : text);
  return true;
}

/** Prints the answers about all members of the round; returns false if the archive does not reach it. */
async function printAll(
  archive: Opened,
  question: RoundQuestion,
  flags: ExplainFlags,
): Promise<boolean> {
  const { round } = question;
  const workers = await explainWorkers(archive, question);
  if (!workers) return false;
  const lines = workers.map(({ worker, why }) => `${shortName(worker)}  ${shortened(why[0]!)}\n`);
  writeOut(flags.json ? asJson({ round, workers }) : lines.join(''));
  return true;
}

/** Returns the words with digests cut to eight digits; with --worker and in JSON they are whole. */
const shortened = (words: string): string => words.replace(/\b([0-9a-f]{8})[0-9a-f]{56}\b/g, '$1');
