/** One decided round, for time travel: roster, outcome, committee, who counted and who did not, with the reasons on request. */

import type { RoundPicture } from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/round-name.ts';
import { button, type Child, h, table } from '../dom.ts';
import { bytes, clock, loss, shortHash, shortKey } from '../format.ts';

/** What a person asked about workers in rounds, by `round/worker`. */
export type Reasons = ReadonlyMap<string, readonly string[]>;

export const reasonKey = (round: number, worker: string): string => `${round}/${worker}`;

/** The round. */
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
      ...fact('Result', round.result === 'final' ? 'final' : 'void: nothing was counted'),
      ...fact('Decided', `${clock(round.time)} UTC`),
      ...fact('Proposed by', shortKey(round.proposer)),
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
      h('p', { class: 'bad' }, `Fork: ${forks.map(shortHash).join(', ')} was decided too.`),
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
  const said = (what: string, keys: readonly string[]) =>
    keys.length > 0 && h('p', {}, `${what}: ${keys.map(shortKey).join(', ')}`);
  return [
    said('Joined', joined),
    said('Left', left),
    ...faults.map(({ worker, kind }) =>
      h(
        'p',
        { class: 'bad' },
        `Thrown out: ${shortKey(worker)} is proven to have broken the rules (${kind}).`,
      ),
    ),
  ];
}

function rosterTable(round: RoundPicture, ask: (worker: string) => void): HTMLElement {
  const counted = new Map(round.accepted.map((each) => [each.worker, each.late]));
  const refused = new Map(round.rejected.map((each) => [each.worker, each.reason]));
  const sent = new Map(round.sent.map((each) => [each.worker, each]));
  const rows = round.roster.map((worker) => {
    const late = counted.get(worker);
    const reason = refused.get(worker);
    const verdict =
      late !== undefined
        ? late
          ? 'counted, late'
          : 'counted'
        : reason
          ? `refused: ${reason}`
          : 'not counted';
    const announced = sent.get(worker);
    return [
      shortKey(worker),
      verdict,
      loss(announced?.loss),
      announced ? bytes(announced.bytes) : 'nothing came',
      seatOf(worker, round),
      button('why?', () => ask(worker), { 'aria-label': `why, ${shortKey(worker)}?` }),
    ];
  });
  const headings = ['worker', 'contribution', 'loss', 'payload', 'seat', 'why'];
  return table(`Roster of round ${roundNumber(round.round)}`, headings, rows);
}

function seatOf(worker: string, { committee, signers }: RoundPicture): string {
  if (!committee.includes(worker)) return 'no seat';
  return signers.includes(worker) ? 'signed' : 'did not sign';
}

/** What was answered of workers of this round. */
function answers(round: RoundPicture, reasons: Reasons): HTMLElement | undefined {
  const told = round.roster.flatMap((worker) => {
    const why = reasons.get(reasonKey(round.round, worker));
    return why === undefined ? [] : [{ worker, why }];
  });
  if (told.length === 0) return undefined;
  const items = told.flatMap(({ worker, why }) => [
    h('dt', {}, shortKey(worker)),
    ...why.map((each) => h('dd', {}, each)),
  ]);
  return h('dl', { class: 'why', role: 'status' }, ...items);
}
