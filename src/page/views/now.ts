/** What is going on: the round that nobody has decided yet, seat by seat, and who is missing. */

import type { OpenRoundPicture, RunPicture } from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/round-name.ts';
import { type Child, h, table } from '../dom.ts';
import { ago, bytes, loss, shortKey } from '../format.ts';

/** Seconds without a decision from which on a page says who is missing. */
const STALL_SECONDS = 30;

/** The open round, or that the run is over. */
export function nowView({ open, rounds, planned, isCaughtUp }: RunPicture): readonly Child[] {
  if (!isCaughtUp) return [h('p', { class: 'empty' }, 'Reading what the relays have …')];
  if (open === undefined) {
    return [h('p', {}, `The run is over: ${rounds.length} of ${planned} rounds are decided.`)];
  }
  return [
    h(
      'p',
      {},
      `Round ${roundNumber(open.round)} of ${planned}: ${open.sent.length} of ${open.roster.length} contributions are here, ${open.prepared.length} members prepared, ${open.committed.length} of ${open.quorum} needed committed.`,
    ),
    ...troubles(open),
    open.committee.length > 0 ? seats(open) : undefined,
  ];
}

function troubles(open: OpenRoundPicture): readonly Child[] {
  const { missing, since, attempt, view, lacks } = open;
  const isSlow = since > 0 && Date.now() / 1000 - since > STALL_SECONDS;
  return [
    attempt > 0 &&
      h('p', { class: 'bad' }, `Recovery epoch ${attempt}: the members draw another committee.`),
    view > 0 &&
      h('p', { class: 'warn' }, `View ${view}: ${view} proposals were not decided in time.`),
    isSlow &&
      missing.length > 0 &&
      h(
        'p',
        { class: 'warn', role: 'status' },
        `No sign in this round of ${missing.map(shortKey).join(', ')}; the last round ended ${ago(since)}.`,
      ),
    lacks !== undefined && h('p', { class: 'warn' }, `Not here: ${lacks}.`),
  ];
}

function seats(open: OpenRoundPicture): HTMLElement {
  const sent = new Map(open.sent.map((each) => [each.worker, each]));
  const proposed = new Map(open.proposed.map(({ worker, view }) => [worker, view]));
  const rows = open.committee.map((worker, rank) => {
    const own = sent.get(worker);
    const view = proposed.get(worker);
    return [
      shortKey(worker),
      own ? `${bytes(own.bytes)}, loss ${loss(own.loss)}` : 'not yet',
      view !== undefined
        ? `in view ${view}`
        : rank === open.view % open.committee.length
          ? 'its turn'
          : '–',
      tick(open.prepared.includes(worker) || view !== undefined),
      tick(open.committed.includes(worker)),
    ];
  });
  return table('Committee', ['seat', 'contribution', 'proposal', 'prepared', 'committed'], rows);
}

const tick = (isSet: boolean): HTMLElement =>
  h('span', { class: isSet ? 'yes' : 'no' }, isSet ? '✓ yes' : 'no');
