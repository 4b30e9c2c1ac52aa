/** What `nostrain challenge` prints: a line for each check, and what they come to. */
import type { ListedRow } from '../../../certified/checks/checks.ts';
import type { CheckReason, CheckResult, Finding } from '../../../certified/checks/rerun.ts';
import { toNpub } from '../../../node/files/keys.ts';
import { roundNumber } from '../../../run/round-name.ts';

/** One check. */
export interface Check extends ListedRow, Finding {
  /** What the author says of its machine, and of this one. */
  readonly theirs: string;
  readonly ours: string;
  readonly seconds: number;
}

const REASONS: Readonly<Record<CheckReason, string>> = {
  'not-shown': 'what it starts from is on no relay that the run names',
  'not-linked': 'the contribution before it is not on this branch',
  'not-a-state': 'it committed to what is no state of this model',
  'other-bits': 'its steps lead to other bits on a machine that computes alike',
  'other-steps': 'its steps lead elsewhere',
  'other-payload': 'it sent other values than it committed to',
  'other-count': 'it says another number of steps or examples',
};

const RESULTS: Readonly<Record<CheckResult, string>> = {
  same: 'the same bits',
  near: 'near enough for another machine',
  fault: 'NOT WHAT IT SAYS',
  unanswered: 'not checked',
};

/** One line. */
export const formatCheck = ({ round, worker, result, reason, apartPpm, seconds }: Check): string =>
  [
    `round ${String(roundNumber(round)).padStart(4)}  ${toNpub(worker)}  ${RESULTS[result]}`,
    ...(reason ? [`: ${REASONS[reason]}`] : []),
    ...(apartPpm === undefined ? [] : [`, ${apartPpm} ppm apart`]),
    ` (${seconds.toFixed(1)} s)\n`,
  ].join('');

/** The last line. */
export function formatTotal(checks: readonly Check[], wanted: number): string {
  const count = (result: CheckResult) => checks.filter((each) => each.result === result).length;
  const parts = [
    `${count('same')} the same`,
    `${count('near')} near enough`,
    `${count('fault')} at fault`,
    `${count('unanswered')} not checked`,
  ];
  const rest = wanted - checks.length;
  return `${parts.join(', ')}${rest > 0 ? `; the model is not at hand for ${rest} more` : ''}\n`;
}
