/** The round that nobody has decided yet, workers, relays, and what was refused. */

import { formatBytes, formatLoss } from '../../base/numbers.ts';
import type { OpenRoundPicture, RunPicture, WorkerPicture } from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/ids.ts';
import { type Child, h, table } from '../dom.ts';
import { ago, clock, score, shortKey } from '../format.ts';

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
      `Round ${roundNumber(open.round)} of ${planned}: ${open.sent.length} of ` +
        `${open.roster.length} contributions are here, ${open.prepared.length} members prepared, ` +
        `${open.committed.length} of ${open.quorum} needed committed.`,
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
        `No sign in this round of ${missing.map(shortKey).join(', ')}; the last ` +
          `round ended ${ago(since)}.`,
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
      own ? `${formatBytes(own.bytes)}, loss ${formatLoss(own.loss)}` : 'not yet',
      view !== undefined
        ? `in view ${view}`
        : rank === open.view % open.committee.length
          ? 'its turn'
          : '-',
      tick(open.prepared.includes(worker) || view !== undefined),
      tick(open.committed.includes(worker)),
    ];
  });
  return table('Committee', ['seat', 'contribution', 'proposal', 'prepared', 'committed'], rows);
}

const tick = (isSet: boolean): HTMLElement =>
  h('span', { class: isSet ? 'yes' : 'no' }, isSet ? '✓ yes' : 'no');

const MOST_WORKERS = 300;

export function workersView({ workers, open, planned }: RunPicture): readonly Child[] {
  const shown = [...workers]
    .sort((a, b) => Number(b.inRoster) - Number(a.inRoster) || b.lastSign - a.lastSign)
    .slice(0, MOST_WORKERS);
  const headings = [
    'worker',
    'state',
    'round',
    'counted',
    'loss',
    'score',
    'device',
    'sent',
    'last sign of life',
  ];
  const rows = shown.map((each) => [
    each.principal === undefined
      ? shortKey(each.worker)
      : `${shortKey(each.worker)} for ${shortKey(each.principal)}`,
    stateOf(each, open === undefined),
    roundNumber(Math.min(each.round, planned - 1)),
    `${each.counted} of ${each.sent}`,
    formatLoss(each.loss),
    each.isLow ? `${score(each.score)}, under the floor` : score(each.score),
    each.device ?? '-',
    formatBytes(each.bytes),
    ago(each.lastSign),
  ]);
  return [table(`${shown.length} of ${workers.length} workers`, headings, rows)];
}

function stateOf(
  { inRoster, isFaulted, isAway, hasSeat }: WorkerPicture,
  isOver: boolean,
): HTMLElement {
  if (isFaulted) return h('span', { class: 'bad' }, 'thrown out');
  if (!inRoster) return h('span', {}, 'left');
  if (isOver) return h('span', {}, 'in the roster');
  if (isAway) return h('span', { class: 'warn' }, 'silent');
  return h('span', { class: 'yes' }, hasSeat ? 'here, has a seat' : 'here');
}

export function relaysView({ relays, events }: RunPicture): readonly Child[] {
  if (relays.length === 0) return [h('p', {}, `From an archive: ${events} events.`)];
  const rows = relays.map((each) => [
    each.relay,
    each.error === '' ? each.state : `${each.state}: ${each.error}`,
    each.events,
    each.refused,
    formatBytes(each.bytesIn),
    formatBytes(each.bytesOut),
  ]);
  const headings = ['relay', 'connection', 'events', 'refused', 'received', 'sent'];
  return [table(`${relays.length} relays`, headings, rows)];
}

/** What was refused by outcomes and by this page, and faults, the newest first. */
export function refusedView({ refused, rounds }: RunPicture): readonly Child[] {
  const byOutcomes = rounds.flatMap(({ round, time, rejected, faults }) => [
    ...rejected.map(({ worker, reason }) => ({
      at: time,
      who: shortKey(worker),
      what: `round ${roundNumber(round)}: ${reason}`,
    })),
    ...faults.map(({ worker, kind }) => ({
      at: time,
      who: shortKey(worker),
      what: `round ${roundNumber(round)}: broke the rules (${kind})`,
    })),
  ]);
  const here = refused.map(({ at, relay = '', worker, reason, detail }) => ({
    at,
    who: worker ? shortKey(worker) : relay,
    what: `${reason}: ${detail}`,
  }));
  const all = [...byOutcomes, ...here].sort((a, b) => b.at - a.at).slice(0, MOST_WORKERS);
  if (all.length === 0) return [h('p', { class: 'empty' }, 'Nothing was refused.')];
  const rows = all.map(({ at, who, what }) => [clock(at), who, what]);
  return [table(`${all.length} refused`, ['time (UTC)', 'worker or relay', 'reason'], rows)];
}
