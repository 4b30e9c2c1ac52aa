/** Views of the current round, the workers, the relays, and refused contributions and events. */

import { formatBytes, formatLoss } from '../../base/numbers.ts';
import type {
  OpenRoundPicture,
  RelayPicture,
  RunPicture,
  WorkerPicture,
} from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/ids.ts';
import { called, shortName } from '../../run/worker-names.ts';
import { type Child, type Columns, h, table } from '../dom.ts';
import { ago, clock, score } from '../format.ts';

/** After this many seconds without a decision, the page names missing members. */
const STALL_SECONDS = 30;

/** Shows the current round, or that the run is over. */
export function nowView({ open, rounds, planned, isCaughtUp }: RunPicture): readonly Child[] {
  if (!isCaughtUp) return [h('p', { class: 'empty' }, 'Reading events from the relays …')];
  if (open === undefined) {
    return [h('p', {}, `The run is over: ${rounds.length} of ${planned} rounds are decided.`)];
  }
  return [
    h(
      'p',
      {},
      `Round ${roundNumber(open.round)} of ${planned}: ${open.sent.length} of ` +
        `${open.roster.length} contributions arrived, ${open.prepared.length} members prepared, ` +
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
        `No event in this round from ${missing.map(shortName).join(', ')}; the last ` +
          `round ended ${ago(since)}.`,
      ),
    lacks !== undefined && h('p', { class: 'warn' }, `Missing: ${lacks}.`),
  ];
}

function seats(open: OpenRoundPicture): HTMLElement {
  const sent = new Map(open.sent.map((each) => [each.worker, each]));
  const proposed = new Map(open.proposed.map(({ worker, view }) => [worker, view]));
  const turn = open.committee[open.view % open.committee.length];
  const proposalOf = (worker: string): string => {
    if (proposed.has(worker)) return `in view ${proposed.get(worker)}`;
    return worker === turn ? 'its turn' : '-';
  };
  const contributionOf = (worker: string): string => {
    const contribution = sent.get(worker);
    if (contribution === undefined) return 'not yet';
    return `${formatBytes(contribution.bytes)}, loss ${formatLoss(contribution.loss)}`;
  };
  const columns: Columns<string> = {
    seat: shortName,
    contribution: contributionOf,
    proposal: proposalOf,
    prepared: (worker) => tick(open.prepared.includes(worker) || proposed.has(worker)),
    committed: (worker) => tick(open.committed.includes(worker)),
  };
  return table('Committee', columns, open.committee);
}

const tick = (isSet: boolean): HTMLElement =>
  h('span', { class: isSet ? 'yes' : 'no' }, isSet ? '✓ yes' : 'no');

/** Maximum number of rows in a table. */
const MOST_WORKERS = 300;

export function workersView({ workers, open, planned }: RunPicture): readonly Child[] {
  const present = workers.filter(({ inRoster, isFaulted }) => inRoster || isFaulted);
  const shown = [...present]
    .sort((a, b) => Number(b.inRoster) - Number(a.inRoster) || b.lastSign - a.lastSign)
    .slice(0, MOST_WORKERS);
  const left = workers.length - present.length;
  const caption = `${shown.length} of ${present.length} workers${left > 0 ? `, ${left} left` : ''}`;
  const columns: Columns<WorkerPicture> = {
    worker: ({ worker, name, principal }) =>
      principal === undefined
        ? called(worker, name)
        : `${called(worker, name)} for ${shortName(principal)}`,
    state: (each) => stateOf(each, open === undefined),
    round: ({ round }) => roundNumber(Math.min(round, planned - 1)),
    counted: ({ counted, sent }) => `${counted} of ${sent}`,
    loss: ({ loss }) => formatLoss(loss),
    score: (each) => (each.isLow ? `${score(each.score)}, below the floor` : score(each.score)),
    device: ({ device = '-' }) => device,
    sent: ({ bytes }) => formatBytes(bytes),
    'last event': ({ lastSign }) => ago(lastSign),
  };
  return [table(caption, columns, shown)];
}

function stateOf(
  { inRoster, isFaulted, isAway, hasSeat }: WorkerPicture,
  isOver: boolean,
): HTMLElement {
  if (isFaulted) return h('span', { class: 'bad' }, 'removed');
  if (!inRoster) return h('span', {}, 'left');
  if (isOver) return h('span', {}, 'in the roster');
  if (isAway) return h('span', { class: 'warn' }, 'silent');
  return h('span', { class: 'yes' }, hasSeat ? 'active, has a seat' : 'active');
}

export function relaysView({ relays, events }: RunPicture): readonly Child[] {
  if (relays.length === 0) return [h('p', {}, `From an archive: ${events} events.`)];
  const columns: Columns<RelayPicture> = {
    relay: ({ relay }) => relay,
    connection: ({ state, error }) => (error === '' ? state : `${state}: ${error}`),
    events: (each) => each.events,
    refused: ({ refused }) => refused,
    received: ({ bytesIn }) => formatBytes(bytesIn),
    sent: ({ bytesOut }) => formatBytes(bytesOut),
  };
  return [table(`${relays.length} relays`, columns, relays)];
}

/** Shows what outcomes and this page refused, and faults, the newest first. */
export function refusedView({ refused, rounds }: RunPicture): readonly Child[] {
  const byOutcomes = rounds.flatMap(({ round, time, rejected, faults }) => [
    ...rejected.map(({ worker, reason }) => ({
      at: time,
      who: shortName(worker),
      what: `round ${roundNumber(round)}: ${reason}`,
    })),
    ...faults.map(({ worker, kind }) => ({
      at: time,
      who: shortName(worker),
      what: `round ${roundNumber(round)}: broke the rules (${kind})`,
    })),
  ]);
  const byPage = refused.map(({ at, relay = '', worker, reason, detail }) => ({
    at,
    who: worker ? shortName(worker) : relay,
    what: `${reason}: ${detail}`,
  }));
  const all = [...byOutcomes, ...byPage].sort((a, b) => b.at - a.at).slice(0, MOST_WORKERS);
  if (all.length === 0) return [h('p', { class: 'empty' }, 'Nothing was refused.')];
  const columns: Columns<(typeof all)[number]> = {
    'time (UTC)': ({ at }) => clock(at),
    'worker or relay': ({ who }) => who,
    reason: ({ what }) => what,
  };
  return [table(`${all.length} refused`, columns, all)];
}
