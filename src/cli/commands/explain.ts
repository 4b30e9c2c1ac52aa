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
import { required, roundFlag, text, toggle } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { askingRule, historySourceFlags, readHistory } from '../shared/archive-source.ts';
import { workerNamed } from '../shared/worker-flag.ts';

export const explain = defineCommand({
  name: 'explain',
  help: 'print why contributions to a round were or were not counted',
  args: [['[run]', 'the same as --run']],
  flags: {
    ...historySourceFlags,
    round: required(roundFlag('<n>', 'the round')),
    worker: text('<npub>', 'author of the contribution (default: all of the round)'),
    json: toggle('print JSON'),
  },
  async run(typed, { args: [run], command, signal }) {
    const flags = run === undefined ? typed : { ...typed, run };
    const { round, worker, json } = flags;
    refuseUnused(command, [askingRule(flags)]);
    const { archive, options } = await readHistory(flags, signal);
    const question = { ...options, round };
    const words = await whileSlow('replaying the run', writeNote, () =>
      worker === undefined
        ? aboutAll(archive, question, json)
        : aboutOne(archive, question, worker, json),
    );
    if (words !== undefined) return writeOut(words);
    throw new ConfigError('flag/round', `${roundName(round)} of the run is not in these events`, {
      hint: '`nostrain replay` with the same flags lists the rounds that they have',
    });
  },
});

/** Returns the answer about one worker; undefined if the archive does not reach the round. */
async function aboutOne(
  archive: Opened,
  question: RoundQuestion,
  typed: string,
  json?: boolean,
): Promise<string | undefined> {
  const { round } = question;
  const worker = workerNamed(typed, new Set(archive.events.map(({ pubkey }) => pubkey)));
  const explanation = await explainRound(archive, { ...question, worker });
  if (!explanation) return undefined;
  return json ? asJson({ worker, round, ...explanation }) : `${explanation.why.join('\n')}\n`;
}

/** Returns the answers about all members of the round; undefined if the archive does not reach it. */
async function aboutAll(
  archive: Opened,
  question: RoundQuestion,
  json?: boolean,
): Promise<string | undefined> {
  const { round } = question;
  const workers = await explainWorkers(archive, question);
  if (!workers) return undefined;
  const lines = workers.map(({ worker, why }) => `${shortName(worker)}  ${shortened(why[0]!)}\n`);
  return json ? asJson({ round, workers }) : lines.join('');
}

/** Returns the words with digests cut to eight digits; with --worker and in JSON they are whole. */
const shortened = (words: string): string => words.replace(/\b([0-9a-f]{8})[0-9a-f]{56}\b/g, '$1');
