/** `nostrain scores`: prints the certified scores of a run and the weight vector that follows, signed if asked. */

import type { Command } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { openingOf } from '../../certified/decisions/chain.ts';
import { pathOf } from '../../certified/decisions/replay.ts';
import { openHistory } from '../../certified/records/archive.ts';
import { type Standing, standingsOf } from '../../certified/records/receipt.ts';
import type { SignedEvent } from '../../network/event.ts';
import { toNpub } from '../../node/files/keys.ts';
import type { Digest } from '../../run/ids.ts';
import { runIdOf } from '../../run/spec/run-spec.ts';
import { commandWith, type FlagValues, text, toggle } from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { asJson, writeOut } from '../../terminal/output.ts';
import { askingRule, openSource, sourceFlags, sourceOf } from '../shared/archive-source.ts';
import { signedDocument, signingFlags } from '../shared/signed-document.ts';

interface ScoresDocument {
  readonly run: Digest;
  /** Rounds that are decided. */
  readonly rounds: number;
  /** The best first. */
  readonly scores: readonly Standing[];
  /** Kind 30078 over run, rounds and weights, where it was signed; a later one takes its place. */
  readonly event?: SignedEvent;
}

const scoresFlags = {
  ...sourceFlags,
  events: text('<file>', 'read this instead of asking relays'),
  ...signingFlags,
  json: toggle('print JSON'),
};

type Flags = FlagValues<typeof scoresFlags>;

export const scores = (): Command =>
  commandWith(
    'scores',
    'print the certified scores of a run and the weight vector that follows from them',
    scoresFlags,
  ).action(async (flags: Flags, command: Command) => {
    refuseUnused(command, [askingRule(flags)]);
    await interruptibly((signal) => tell(flags, signal));
  });

async function tell(flags: Flags, signal: AbortSignal): Promise<void> {
  const source = await sourceOf(flags, signal);
  const { options } = source;
  const { spec, gathered } = await openHistory(await openSource(flags, source), options);
  if (!spec.scores) {
    throw new ConfigError('run/no-scores', 'members of this run do not score contributions', {
      hint: 'a run with scores is made by `nostrain run create --scores`',
    });
  }
  const { tip } = pathOf(openingOf(spec, options), gathered);
  const [run, rounds] = [runIdOf(spec), tip.chain.round];
  const best = [...standingsOf(tip.chain)].sort((a, b) => b.score - a.score);
  const weights = best.flatMap(({ worker, weight }) => (weight > 0 ? [[worker, weight]] : []));
  const event = await signedDocument(flags, `nostrain/weights/${run}`, { run, rounds, weights });
  const document: ScoresDocument = { run, rounds, scores: best, ...(event && { event }) };
  writeOut(flags.json ? asJson(document) : words(document));
}

const words = ({ run, rounds, scores: rows, event }: ScoresDocument): string =>
  [
    `run ${run} after ${rounds} rounds`,
    ...rows.map(line),
    ...(event ? [`signed by ${toNpub(event.pubkey)}`] : []),
    '',
  ].join('\n');

const line = ({ worker, score, weight, isLow }: Standing): string =>
  `${toNpub(worker)}  ${String(score).padStart(11)}  ${(100 * weight).toFixed(2).padStart(6)} ` +
  `%${isLow ? '  under the floor' : ''}`;
