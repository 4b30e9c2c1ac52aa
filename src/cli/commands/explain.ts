/** `nostrain explain`: prints why the contributions of workers to one round were or were not counted. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { whileSlow } from '../../base/slow.ts';
import {
  type Explanation,
  explainRound,
  explainWorkers,
  type WorkerExplanation,
} from '../../certified/records/explain.ts';
import { roundName, type WorkerId } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
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
import { workerNamed } from '../shared/worker-flag.ts';

const explainFlags = {
  ...sourceFlags,
  round: required(roundFlag('<n>', 'the round')),
  worker: text('<npub>', 'author of the contribution (default: all of the round)'),
  events: text('<file>', 'archive to read instead of asking relays'),
  json: toggle('print JSON'),
};

type ExplainFlags = FlagValues<typeof explainFlags>;

export const explain = (): Command =>
  commandWith(
    'explain',
    'print why contributions to a round were or were not counted',
    explainFlags,
  ).action(async (flags: ExplainFlags, command: Command) => {
    refuseUnused(command, [askingRule(flags)]);
    await interruptibly(async (signal) => {
      const { round } = flags;
      const source = await sourceOf(flags, signal);
      const archive = await openSource(flags, source);
      const authors = archive.events.map(({ pubkey }) => pubkey);
      const worker = flags.worker === undefined ? undefined : workerNamed(flags.worker, authors);
      const question = { ...source.options, round };
      const document = await whileSlow('replaying the run', writeNote, async () =>
        worker === undefined
          ? workersDocument(round, await explainWorkers(archive, question))
          : workerDocument(worker, round, await explainRound(archive, { ...question, worker })),
      );
      if (document === undefined) {
        throw new ConfigError(
          'flag/round',
          `${roundName(round)} of the run is not in these events`,
          {
            hint: '`nostrain replay` with the same flags lists the rounds that they have',
          },
        );
      }
      writeOut(flags.json ? asJson(document) : `${linesOf(document).join('\n')}\n`);
    });
  });

/** The answer about one worker, or about all workers of the round. */
type ExplainDocument = WorkerDocument | WorkersDocument;
type WorkerDocument = { readonly worker: WorkerId; readonly round: number } & Explanation;
interface WorkersDocument {
  readonly round: number;
  readonly workers: readonly WorkerExplanation[];
}

const workerDocument = (
  worker: WorkerId,
  round: number,
  explanation: Explanation | undefined,
): WorkerDocument | undefined => explanation && { worker, round, ...explanation };

const workersDocument = (
  round: number,
  workers: readonly WorkerExplanation[] | undefined,
): WorkersDocument | undefined => workers && { round, workers };

const linesOf = (document: ExplainDocument): readonly string[] =>
  'workers' in document
    ? document.workers.map(({ worker, why }) => `${shortName(worker)}  ${why[0]}`)
    : document.why;
