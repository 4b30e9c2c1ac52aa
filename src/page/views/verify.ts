/** View of a replay in the page: its progress, its result, and what it proves. */

import type { ReplayReport, RoundReport } from '../../certified/records/replay-run.ts';
import { roundNumber } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import { type Child, h } from '../dom.ts';
import type { FromJob } from '../messages.ts';

export interface Verification {
  readonly state: 'idle' | 'gathering' | 'checking' | 'done' | 'failed';
  readonly have: number;
  readonly of: number;
  readonly rounds: readonly RoundReport[];
  readonly report?: ReplayReport;
  readonly seconds?: number;
}

export const notVerified: Verification = { state: 'idle', have: 0, of: 0, rounds: [] };

/** Returns the verification after a message of the background thread. */
export function verified(
  before: Verification,
  message: Extract<FromJob, { type: 'gathering' | 'checked' | 'verified' }>,
): Verification {
  if (message.type === 'gathering') return { ...before, have: message.have };
  if (message.type === 'verified') {
    return { ...before, state: 'done', report: message.report, seconds: message.seconds };
  }
  const rounds = [...before.rounds, message.round];
  return { ...before, state: 'checking', of: message.of, rounds };
}

export function verifyView({
  state,
  have,
  of,
  rounds,
  report,
  seconds,
}: Verification): readonly Child[] {
  if (state === 'idle' || state === 'failed') return [];
  if (report === undefined) {
    const words =
      state === 'gathering'
        ? `Checking: ${have} events loaded`
        : `Checking: ${rounds.length} of ${of} rounds done`;
    return [
      h('progress', { max: Math.max(1, of), value: rounds.length, 'aria-label': 'replay' }),
      h('p', { role: 'status' }, words),
    ];
  }
  const full = report.lines.filter(({ checked }) => checked === 'full').length;
  return [
    h('p', { class: report.ok ? 'verdict yes' : 'verdict bad', role: 'status' }, verdictOf(report)),
    h('ul', {}, ...proofOf(report, full, seconds ?? 0).map((each) => h('li', {}, each))),
    roots(report),
  ];
}

function verdictOf({ ok, rounds, firstBad, bad }: ReplayReport): string {
  if (ok) return `Proved: all ${rounds} rounds follow from what their members signed.`;
  if (firstBad !== null) return `Wrong from round ${roundNumber(firstBad)} on.`;
  if (bad.length > 0) return `${bad.length} lines of the archive are not genuine events.`;
  return rounds === 0
    ? 'No round is decided yet: there is nothing to prove.'
    : 'Not proved completely: some data is missing.';
}

function proofOf(
  { lines, rounds, believed }: ReplayReport,
  full: number,
  seconds: number,
): readonly string[] {
  const signers = lines.reduce((sum, line) => sum + (line.signers ?? 0), 0);
  const faults = lines.flatMap((line) => line.faults ?? []);
  const culprits = faults.map(({ worker, kind }) => `${shortName(worker)} (${kind})`);
  const problems = lines.flatMap(({ round, problem }) =>
    problem === undefined ? [] : [`Round ${roundNumber(round)}: ${problem}`],
  );
  const missing = lines.flatMap(({ round, missing: lacks }) =>
    lacks === undefined ? [] : [`Round ${roundNumber(round)} lacks ${lacks.join(', ')}`],
  );
  return [
    `Certificates: ${signers} signatures of members in ${rounds} rounds, ` +
      'each from a committee drawn by the rules.',
    `Model: the parameters of ${full} of ${rounds} rounds were recomputed here, ` +
      'and match the signed roots.',
    faults.length === 0
      ? 'Faults: no worker is proven to have broken the rules.'
      : `Faults, proven by two signed statements each: ${culprits.join(', ')}.`,
    ...(believed > 0 ? [`${believed} block hashes of the beacon were not verified.`] : []),
    ...problems.slice(0, 5),
    ...missing.slice(0, 5),
    `It took ${seconds.toFixed(1)} seconds in this browser, without any key. ` +
      'It does not prove losses, samples and devices, which workers report themselves.',
  ];
}

const roots = ({ runRoot, modelRoot, ledgerRoot }: ReplayReport): HTMLElement =>
  h(
    'dl',
    { class: 'facts roots' },
    ...[
      ['Run root', runRoot ?? 'none'],
      ['Model root', modelRoot],
      ['Ledger root', ledgerRoot],
    ].flatMap(([name = '', value = '']) => [
      h('dt', {}, name),
      h('dd', { id: name.toLowerCase().replace(' ', '-') }, h('code', {}, value)),
    ]),
  );
