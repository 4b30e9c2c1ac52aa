/** A replay in words. */

import type { BadLine } from '../../../certified/records/archive.ts';
import type { ReplayReport, RoundReport } from '../../../certified/records/replay-run.ts';
import { toNpub } from '../../../node/files/keys.ts';
import { roundName, roundNumber } from '../../../run/round-name.ts';
import type { Evaluation } from './evaluate.ts';

const short = (hex: string): string => hex.slice(0, 12);
const name = (key: string): string => `${toNpub(key).slice(0, 12)}…`;
const MOST_BAD = 20;

/** One round in one line. */
export function formatLine(line: RoundReport): string {
  const { round, checked, result, problem, missing } = line;
  const head = `round ${String(roundNumber(round)).padStart(4)}  `;
  if (problem !== undefined) return `${head}BAD          ${problem}\n`;
  const lacks = missing === undefined ? '' : `  not here: ${missing.join(', ')}`;
  if (result === undefined) return `${head}not checked${lacks}\n`;
  const { accepted = [], signers, seats, modelRoot = '', ledgerRoot = '' } = line;
  const how =
    checked === 'full' ? 'full       ' : checked === 'chain' ? 'chain      ' : 'not checked';
  const roots = `model ${short(modelRoot)}  ledger ${short(ledgerRoot)}`;
  const rows = `${String(accepted.length).padStart(3)} accepted`;
  const model =
    checked === 'chain' && lacks !== '' ? `  model not checked,${lacks.trimStart()}` : '';
  const rest = checked === 'nothing' ? lacks : model;
  return `${head}${how}  ${result.padEnd(5)}  ${rows}  ${signers} of ${seats} signed  ${roots}${notes(line)}${rest}\n`;
}

/** What is out of the ordinary. */
function notes({
  attempt,
  view,
  accepted,
  rejected,
  joined,
  left,
  faults,
  forks,
}: RoundReport): string {
  const late = (accepted ?? []).filter((row) => row.late).map(({ worker }) => worker);
  const all = [
    ...(attempt ? [`recovery epoch ${attempt}`] : []),
    ...(view ? [`view ${view}`] : []),
    ...late.map((key) => `late ${name(key)}`),
    ...(rejected ?? []).map(({ worker, reason }) => `rejected ${name(worker)} (${reason})`),
    ...(joined ?? []).map((key) => `joined ${name(key)}`),
    ...(left ?? []).map((key) => `left ${name(key)}`),
    ...(faults ?? []).map(({ worker, kind }) => `fault ${name(worker)} (${kind})`),
    ...(forks ?? []).map((digest) => `FORK: ${digest} was decided too`),
  ];
  return all.length === 0 ? '' : `  ${all.join(', ')}`;
}

/** A line of a file that is no event. */
const formatBad = ({ line, reason, round }: BadLine): string =>
  `line ${line}  BAD  ${reason}${round === undefined ? '' : `  (${roundName(round)})`}\n`;

/** What comes after the rounds. */
export function formatEnd(report: ReplayReport, evaluation?: Evaluation): string {
  const { ok, rounds, firstBad, bad, lines, runRoot, modelRoot, ledgerRoot } = report;
  const wrong = bad.slice(0, MOST_BAD).map(formatBad).join('');
  const more = bad.length > MOST_BAD ? `and ${bad.length - MOST_BAD} more lines\n` : '';
  const full = lines.filter(({ checked }) => checked === 'full').length;
  const roots = `run root ${runRoot ?? 'none'}\nmodel root ${modelRoot}\nledger root ${ledgerRoot}\n`;
  const loss = evaluation
    ? `validation loss ${evaluation.before.toFixed(4)} before the first round, ${evaluation.after.toFixed(4)} after the last one\n`
    : '';
  if (ok) return `${roots}${loss}ok: ${rounds} rounds, all recomputed in full\n`;
  const untrusted = report.isTrusted ? '' : 'BAD: the outcome to trust is not in this history\n';
  const first = firstBad === null ? '' : `; the first bad round is ${roundNumber(firstBad)}`;
  const verdict =
    firstBad === null && bad.length === 0
      ? `not checked in full: ${full} of ${rounds} rounds recomputed`
      : `BAD: ${full} of ${rounds} rounds recomputed${first}`;
  return `${wrong}${more}${roots}${untrusted}${verdict}\n`;
}
