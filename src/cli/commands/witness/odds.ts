/** What committees of several sizes stand up to, and how often a draw gives one that does not: a table for people. */

import { formatCount } from '../../../base/numbers.ts';
import type { QuorumRule } from '../../../consensus/committee/quorum.ts';
import { type Odds, type Risk, riskOf } from '../../../consensus/committee/risk.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';

export interface OddsInput {
  /** Keys that may sit. */
  readonly keys: number;
  readonly hostile: readonly number[];
  readonly seats: readonly number[];
  readonly rule: QuorumRule;
  readonly differ: number;
  readonly rounds: number;
}

export interface OddsRow extends Risk {
  readonly hostile: number;
  /** d. */
  readonly differ: number;
}

export const oddsOf = ({ hostile, seats, ...rest }: OddsInput): readonly OddsRow[] =>
  hostile.flatMap((share) =>
    seats.map((each) => {
      const danger = { ...rest, hostile: share, seats: each };
      return { hostile: share, differ: rest.differ, ...riskOf(danger) };
    }),
  );

export function formatOdds(input: OddsInput, rows: readonly OddsRow[]): string {
  const { keys, rule, rounds, differ } = input;
  const heads = ['hostile', 'K', 'k', 'away', 'f', 'd', 'forgery', 'takeover', 'stall'];
  const cells = rows.map(({ hostile, seats, quorum, away, equivocate, ...row }) => [
    `${Number((100 * hostile).toFixed(2))} %`,
    ...[seats, quorum, away, equivocate, row.differ].map(String),
    ...[row.forgery, row.takeover, row.stall].map(wordOdds),
  ]);
  const lines = [
    `${formatCount(keys)} keys that may sit, quorum ${rule}, ${formatCount(rounds)} rounds`,
    '',
    ...alignColumns([heads, ...cells], 100),
    '',
    'K seats, k decide; so many may be away; f may sign two things. Odds: per round, and in all rounds.',
    'forgery: more than f are hostile, two outcomes of a round can be certified.',
    'takeover: k are hostile and certify what they like. stall: hostile silence delays a round.',
    differ === 0
      ? 'd = 0: a first committee. Recovery epochs whose lists differ in d keys stand up to d fewer.'
      : `d = ${differ}: recovery epochs whose lists differ in so many keys.`,
  ];
  return `${lines.join('\n')}\n`;
}

const wordOdds = ({ perRound, perRun }: Odds): string => `${short(perRound)} / ${short(perRun)}`;

const short = (odds: number): string => {
  if (odds === 0 || odds === 1) return String(odds);
  return odds >= 0.01 ? odds.toFixed(2) : odds.toExponential(0);
};
