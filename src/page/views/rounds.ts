/** Views of rounds: the loss as a chart and a table, and one decided round, with explanations on request. */

import { formatBytes, formatLoss, formatShare } from '../../base/numbers.ts';
import type { RoundPicture, RunPicture } from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import { type ChartSeries, chart } from '../chart.ts';
import { button, type Child, type Columns, h, table } from '../dom.ts';
import { clock, shortHash } from '../format.ts';

/** Maximum number of rows in the table of rounds. */
const MOST_ROWS = 200;

export function lossView(
  picture: RunPicture,
  chosen: number | undefined,
  width: number,
): readonly Child[] {
  const { rounds, planned, lossUnit } = picture;
  const span = Math.max(rounds.at(-1)?.round ?? 0, Math.min(planned, 2) - 1) + 1;
  const drawn = chart('Loss by round', lossesOf(rounds), { width, chosen, rounds: span });
  return [
    drawn ?? h('p', { class: 'empty' }, whyEmpty(picture)),
    drawn && legend(lossesOf(rounds)),
    drawn && lossUnit !== '' && h('p', {}, `Losses are ${lossUnit}.`),
    h('details', {}, h('summary', {}, 'Rounds as a table'), roundTable(rounds)),
  ];
}

function whyEmpty({ reports, rounds }: RunPicture): string {
  if (!reports) {
    return (
      'The contributions of this run do not report losses: it was created without ' +
      '--telemetry. Its workers can open this page from their own run folder, which has ' +
      'their losses.'
    );
  }
  return rounds.length === 0 ? 'No round is decided yet.' : 'No losses have been reported yet.';
}

const lossesOf = (rounds: readonly RoundPicture[]): readonly ChartSeries[] => [
  seriesOf(rounds, 'trainingLoss', 'training loss of the workers', 'own'),
  seriesOf(rounds, 'sharedLoss', 'validation loss of the shared model'),
];

const seriesOf = (
  rounds: readonly RoundPicture[],
  measure: 'trainingLoss' | 'sharedLoss',
  name: string,
  className = 'shared',
): ChartSeries => ({
  name,
  className,
  points: rounds.flatMap(({ round, [measure]: value }) =>
    value === undefined ? [] : [{ round, value }],
  ),
});

const legend = (series: readonly ChartSeries[]): HTMLElement =>
  h(
    'ul',
    { class: 'legend' },
    ...series
      .filter(({ points }) => points.length > 0)
      .map(({ name, className }) => h('li', {}, h('span', { class: `key ${className}` }), name)),
  );

function roundTable(rounds: readonly RoundPicture[]): HTMLElement {
  const shown = rounds.slice(-MOST_ROWS);
  const caption = `${shown.length} of ${rounds.length} rounds`;
  return table(caption, COLUMNS, shown.reverse());
}

const COLUMNS: Columns<RoundPicture> = {
  round: ({ round }) => roundNumber(round),
  result: ({ result }) => result,
  training: ({ trainingLoss }) => formatLoss(trainingLoss),
  validation: ({ sharedLoss }) => formatLoss(sharedLoss),
  'bits/byte': ({ bitsPerByte }) => formatLoss(bitsPerByte),
  right: ({ accuracy }) => formatShare(accuracy),
  counted: ({ accepted, roster }) => `${accepted.length} of ${roster.length}`,
  signed: ({ signers, committee }) => `${signers.length} of ${committee.length}`,
  payloads: ({ sent }) => formatBytes(sent.reduce((sum, { bytes }) => sum + bytes, 0)),
};

/** Explanations that the user requested, by `round/worker`. */
export type Reasons = ReadonlyMap<string, readonly string[]>;

export const reasonKey = (round: number, worker: string): string => `${round}/${worker}`;

export function roundView(
  round: RoundPicture,
  reasons: Reasons,
  ask: (worker: string) => void,
): readonly Child[] {
  const { attempt, view, forks, problem } = round;
  const turns = [
    attempt > 0 ? `recovery epoch ${attempt}` : '',
    view > 0 ? `view ${view}: ${view} proposals failed before` : '',
  ].filter((each) => each !== '');
  return [
    h(
      'dl',
      { class: 'facts' },
      ...fact('Result', round.result === 'final' ? 'final' : 'void: no contribution counts'),
      ...fact('Decided', `${clock(round.time)} UTC`),
      ...fact('Proposed by', shortName(round.proposer)),
      ...fact(
        'Signed',
        `${round.signers.length} of ${round.committee.length} seats, ${round.quorum} needed`,
      ),
      ...(turns.length > 0 ? fact('Took', turns.join(', ')) : []),
      ...fact('Outcome', shortHash(round.outcome)),
      ...fact('Model root', shortHash(round.modelRoot)),
      ...fact('Ledger root', shortHash(round.ledgerRoot)),
    ),
    problem === undefined
      ? undefined
      : h('p', { class: 'bad', role: 'alert' }, `Wrong: ${problem}`),
    forks.length > 0 &&
      h('p', { class: 'bad' }, `Fork: ${forks.map(shortHash).join(', ')} was also decided.`),
    ...changes(round),
    rosterTable(round, ask),
    answers(round, reasons),
    round.sample === undefined
      ? undefined
      : h('figure', {}, h('figcaption', {}, 'The shared model wrote'), h('pre', {}, round.sample)),
  ];
}

const fact = (name: string, value: string): readonly Child[] => [
  h('dt', {}, name),
  h('dd', {}, value),
];

function changes({ joined, left, faults }: RoundPicture): readonly Child[] {
  const line = (what: string, keys: readonly string[]) =>
    keys.length > 0 && h('p', {}, `${what}: ${keys.map(shortName).join(', ')}`);
  return [
    line('Joined', joined),
    line('Left', left),
    ...faults.map(({ worker, kind }) =>
      h(
        'p',
        { class: 'bad' },
        `Removed: ${shortName(worker)} is proven to have broken the rules (${kind}).`,
      ),
    ),
  ];
}

function rosterTable(round: RoundPicture, ask: (worker: string) => void): HTMLElement {
  const counted = new Map(round.accepted.map((each) => [each.worker, each.late]));
  const refused = new Map(round.rejected.map((each) => [each.worker, each.reason]));
  const sent = new Map(round.sent.map((each) => [each.worker, each]));
  const verdictOn = (worker: string): string => {
    if (counted.has(worker)) return counted.get(worker) ? 'counted, late' : 'counted';
    const reason = refused.get(worker);
    return reason ? `refused: ${reason}` : 'not counted';
  };
  const payloadOf = (worker: string): string =>
    sent.has(worker) ? formatBytes(sent.get(worker)!.bytes) : 'none';
  const columns: Columns<string> = {
    worker: shortName,
    contribution: verdictOn,
    loss: (worker) => formatLoss(sent.get(worker)?.loss),
    payload: payloadOf,
    seat: (worker) => seatOf(worker, round),
    why: (worker) =>
      button('why?', () => ask(worker), { 'aria-label': `why, ${shortName(worker)}?` }),
  };
  return table(`Roster of round ${roundNumber(round.round)}`, columns, round.roster);
}

function seatOf(worker: string, { committee, signers }: RoundPicture): string {
  if (!committee.includes(worker)) return 'no seat';
  return signers.includes(worker) ? 'signed' : 'did not sign';
}

/** Shows the explanations for workers of this round. */
function answers(round: RoundPicture, reasons: Reasons): HTMLElement | undefined {
  const explained = round.roster.flatMap((worker) => {
    const why = reasons.get(reasonKey(round.round, worker));
    return why === undefined ? [] : [{ worker, why }];
  });
  if (explained.length === 0) return undefined;
  const items = explained.flatMap(({ worker, why }) => [
    h('dt', {}, shortName(worker)),
    ...why.map((each) => h('dd', {}, each)),
  ]);
  return h('div', { role: 'status' }, h('dl', { class: 'why' }, ...items));
}
