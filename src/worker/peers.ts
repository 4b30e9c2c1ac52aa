/** The other workers of a run, known from heartbeats: who is live, differs or is ahead, and the waits for them. */

import { notifiedOrDeadline, within } from '../base/async.ts';
import { RelayError, safeLine } from '../base/errors.ts';
import type { Gradient, Wire } from '../network/wire/wire.ts';
import { type Heartbeat, isStale } from '../run/contribution.ts';
import { roundName, type WorkerId } from '../run/ids.ts';
import {
  differencesOf,
  differentFiles,
  type SettingsFingerprint,
} from '../run/settings-fingerprint.ts';
import { shortName } from '../run/worker-names.ts';
import type { Plan } from './plan.ts';
import type { Session } from './ports.ts';
import type { WorkerState } from './state.ts';

/** Time that the end of a run waits for the peers' digests of the final state. */
const FAREWELL_MS = 10_000;

/**
 * Waits until enough workers are live; calls `answer` for each new one, so that it hears this worker. Throws a
 * RelayError (`round/no-peers`) after the join timeout.
 */
export async function waitForWorkers(session: Session, answer: () => void): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  const deadlineMs = clock.now() + plan.joinTimeoutMs;
  for (let reported = 0; ; ) {
    const have = liveWorkers(session).length;
    if (have > Math.max(1, reported) && !wire.isRateLimited) answer();
    if (have >= plan.waitFor) return tellOfMore(have, session);
    if (clock.now() >= deadlineMs) throw noPeers(have, session);
    if (have !== reported) {
      reported = have;
      report({ type: 'waiting', what: 'workers', round: 0, have, want: plan.waitFor, missing: [] });
    }
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
}

/** Warns if more workers are live than a strict round counts: which ones count would depend on arrival. */
function tellOfMore(have: number, { plan: { sync }, ports: { report } }: Session): void {
  if (sync.strategy !== 'strict' || have <= sync.workers) return;
  report({
    type: 'notice',
    message:
      `${have} workers are online and --sync strict:${sync.workers} counts ${sync.workers}: name ` +
      `them on every worker with --peers KEY,…, or start all workers with --sync strict:${have}`,
  });
}

/** Returns the error; if all relays are at fault, the hint says so, since the others may be online. */
function noPeers(have: number, session: Session): RelayError {
  const { plan, ports } = session;
  const { wire } = ports;
  const troubles = wire.troubles();
  // includes workers that gave up waiting a moment earlier
  const strange = differencesOfPeers(session, { withLeft: true });
  const few =
    `only ${have} of ${plan.waitFor} workers of run ${plan.run} showed up in ` +
    `${plan.joinTimeoutMs / 1000} s`;
  return new RelayError('round/no-peers', [few, ...troubles, ...strange].join('; '), {
    hint: relaysAreAtFault(wire)
      ? RELAY_HINT
      : 'start the others with the same --run and --relay, or ask for fewer with --sync ' +
        'strict:N or --set waitFor=N',
  });
}

/**
 * Waits until the cohort has reported its final state and relays have the last updates of this worker, which later
 * workers need, or FAREWELL_MS; one heartbeat interval longer on rate-limited relays.
 */
export async function hearPeers(
  state: WorkerState,
  published: Promise<boolean>,
  { plan, ports: { clock, wire }, signal }: Session,
): Promise<void> {
  const patienceMs = FAREWELL_MS + (wire.isRateLimited ? plan.heartbeatSeconds * 1000 : 0);
  const deadlineMs = clock.now() + patienceMs;
  const silent = () =>
    (state.cohort ?? []).some(
      (worker) => worker !== wire.me && (wire.heartbeats.get(worker)?.round ?? -1) < state.round,
    );
  while (plan.hearsFinalStates && silent() && clock.now() < deadlineMs) {
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
  await within(Promise.all([published, wire.resend()]), deadlineMs - clock.now(), clock, signal);
}

/** Returns the workers with a fresh heartbeat, ascending, always including this one. */
export function liveWorkers({ plan, ports: { clock, wire } }: Session): WorkerId[] {
  const nowSeconds = clock.now() / 1000;
  const fresh = (heartbeat: Heartbeat) => !isStale(heartbeat, nowSeconds, plan.maxMissedHeartbeats);
  const live = new Set<WorkerId>([wire.me]);
  for (const heartbeat of wire.heartbeats.values()) {
    if (fresh(heartbeat) && !hasDifferentSettings(heartbeat, plan)) live.add(heartbeat.worker);
  }
  return [...live].sort();
}

/** Age in heartbeat intervals from which a worker may have been killed. */
const FRESH_INTERVALS = 1.5;

/** Throws a RelayError (`round/began`) if relays show that others are past the first round; called before it. */
export async function assertNotLate(session: Session): Promise<void> {
  if (!mayBeLate(session)) return;
  const stored = await session.ports.wire.queryGradients();
  const untilSeconds = (one: Gradient) => one.createdAt + patienceSeconds(session);
  const ahead: readonly Sign[] = [
    ...aheadOf(session).map(signOf),
    ...stored
      .filter((one) => isOfTheRun(one, session))
      .map((one) => ({ ...one, untilSeconds: untilSeconds(one) })),
  ];
  if (ahead.length > 0) throw began(ahead, session);
}

/** Throws the same error during the first round once all other workers are past it. */
export function assertCompany(heard: number, session: Session): void {
  if (heard > 1 || !mayBeLate(session)) return;
  const ahead = aheadOf(session);
  if (ahead.length > 0 && livePeers(session).length === ahead.length) {
    throw began(ahead.map(signOf), session);
  }
}

/** Evidence that a worker is in a later round, and until when it is valid. */
interface Sign extends Pick<Gradient, 'worker' | 'round'> {
  readonly untilSeconds: number;
}

const signOf = ({ worker, round, createdAt, intervalSeconds }: Heartbeat): Sign => ({
  worker,
  round,
  untilSeconds: createdAt + FRESH_INTERVALS * intervalSeconds,
});

const mayBeLate = ({ plan }: Session): boolean =>
  plan.refusesLate && plan.sync.strategy !== 'async';

function livePeers({ plan, ports: { clock, wire } }: Session): readonly Heartbeat[] {
  const nowSeconds = clock.now() / 1000;
  return [...wire.heartbeats.values()].filter(
    (each) =>
      each.worker !== wire.me &&
      !isStale(each, nowSeconds, FRESH_INTERVALS) &&
      !hasDifferentSettings(each, plan),
  );
}

/** Returns peers in a later round that did not count a contribution of this worker. */
const aheadOf = (session: Session): readonly Heartbeat[] =>
  livePeers(session).filter(
    ({ round, cohort = [] }) => round > 0 && !cohort.includes(session.ports.wire.me),
  );

/**
 * Reports whether this is a recent gradient of a later round by an active worker: heartbeats are rare if relays limit
 * them.
 */
function isOfTheRun({ worker, round, createdAt }: Gradient, session: Session): boolean {
  const { plan, ports } = session;
  const { wire, clock } = ports;
  const peer = wire.heartbeats.get(worker);
  if (worker === wire.me || round === 0) return false;
  if (peer && (peer.leaving || hasDifferentSettings(peer, plan))) return false;
  return createdAt + patienceSeconds(session) >= clock.now() / 1000;
}

const patienceSeconds = ({ plan }: Session): number =>
  Math.max(plan.roundTimeoutMs / 1000, plan.heartbeatSeconds * plan.maxMissedHeartbeats);

function began(
  ahead: readonly Sign[],
  { plan: { rounds }, ports: { clock } }: Session,
): RelayError {
  const { worker, round } = ahead.reduce((a, b) => (b.round > a.round ? b : a));
  const until = Math.max(...ahead.map(({ untilSeconds }) => untilSeconds));
  const freeInSeconds = Math.max(1, Math.ceil(until - clock.now() / 1000));
  const where = round < rounds ? `It is in ${roundName(round)} of ${rounds}.` : 'It is over.';
  return new RelayError(
    'round/began',
    `${shortName(worker)} trains with a group you are not in: the run began before you came. ` +
      `${where}`,
    {
      hint:
        'continue with the folder you trained in before (--dir DIR), or start a run of another ' +
        'name with all workers (--run NAME); if those workers were killed and no one trains ' +
        `there any more, its name is free in ${freeInSeconds} s; certified runs take newcomers: ` +
        'nostrain run create',
      data: { round, freeInSeconds },
    },
  );
}

/** Maximum differences named in a message. */
const MOST_NAMED = 4;

/** Reports whether a worker's settings differ so that neither can count the other's contributions. */
export const hasDifferentSettings = (
  { fingerprint: theirs }: Heartbeat,
  { fingerprint }: Plan,
): boolean =>
  fingerprint !== undefined && theirs !== undefined && theirs.settings !== fingerprint.settings;

/** Returns differences between this worker and its peers, one sentence each; `withLeft` includes peers that left. */
export const differencesOfPeers = (
  { plan, ports: { wire } }: Session,
  { withLeft } = { withLeft: false },
): readonly string[] =>
  [...wire.heartbeats.values()].flatMap(({ worker, leaving, fingerprint }) => {
    if (worker === wire.me || (leaving && !withLeft) || !plan.fingerprint || !fingerprint)
      return [];
    return differenceIn(plan.fingerprint, fingerprint, shortName(worker)) ?? [];
  });

export function differenceIn(
  ours: SettingsFingerprint,
  theirs: SettingsFingerprint,
  worker: string,
): string | undefined {
  if (ours.settings !== theirs.settings) return settingsDiffer(ours, theirs, worker);
  const [k, n] = ours.shard.split('/');
  const [otherK, otherN] = theirs.shard.split('/');
  if (n !== otherN) {
    return (
      `Worker ${worker} cuts the data into another number of parts (--shard ${theirs.shard}, ` +
      `yours is ${ours.shard}): use the same N in --shard K/N.`
    );
  }
  if (k !== otherK || n === '1') return undefined;
  return (
    `Worker ${worker} trains on the same part of the data (--shard ${theirs.shard}): give each ` +
    'worker a --shard of its own.'
  );
}

const listed = (names: readonly string[]): string =>
  safeLine(names.slice(0, MOST_NAMED).join(', ')) +
  (names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '');

function settingsDiffer(
  ours: SettingsFingerprint,
  theirs: SettingsFingerprint,
  worker: string,
): string {
  const all = differencesOf(ours, theirs);
  const [first] = all;
  const files = differentFiles(ours, theirs);
  if (!first && files.length > 0) {
    return (
      `Worker ${worker} started from another base: ${listed(files)} ` +
      `${files.length === 1 ? 'differs' : 'differ'}. Neither counts the other; stop one and ` +
      'give both the same --base.'
    );
  }
  if (!first) {
    return (
      `Worker ${worker} started with other settings, or runs another version of nostrain. ` +
      'Neither counts the other; stop one and start it as the other was.'
    );
  }
  const named = all.slice(0, MOST_NAMED);
  const flags = named.map(({ flag }) => flag).join(', ');
  const values = named.map(({ name, theirs, ours }) => `${name} ${theirs} (yours is ${ours})`);
  const more = all.length > named.length ? ` and ${all.length - named.length} more` : '';
  const what =
    all.length === 1
      ? `another ${first.name} (${first.theirs}, yours is ${first.ours})`
      : `other settings: ${values.join(', ')}${more}`;
  return (
    `Worker ${worker} started with ${what}. Neither counts the other; stop one and use the same ` +
    `${flags}.`
  );
}

export const relaysAreAtFault = (wire: Wire): boolean =>
  wire.troubles().length === wire.relays.length;

export const RELAY_HINT =
  'see what the relay allows with `nostrain relays check URL`, or add another --relay ' +
  'to every worker; then run the same command again';
