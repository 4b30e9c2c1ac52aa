/**
 * Refuses a worker that comes after its run began: without certified checkpoints nobody can prove which state the others are in, so it
 * would train a model of its own and wait for answers that never come.
 */
import { RelayError } from '../base/errors.ts';
import type { Gradient } from '../network/wire/wire.ts';
import { type Heartbeat, isStale } from '../run/heartbeat.ts';
import { roundName } from '../run/round-name.ts';
import { hasOtherTerms } from './peer-check.ts';
import type { Session } from './ports.ts';

/** A heartbeat that is older than so many intervals may be of a worker that was killed. */
const FRESH_INTERVALS = 1.5;

/** Throws `round/began` when relays show that others are past the first round already; called before the first round. */
export async function assertNotLate(session: Session): Promise<void> {
  if (!mayBeLate(session)) return;
  const stored = await session.ports.wire.lookAround();
  const untilSeconds = (one: Gradient) => one.createdAt + patienceSeconds(session);
  const ahead: readonly Sign[] = [
    ...aheadOf(session).map(signOf),
    ...stored
      .filter((one) => isOfTheRun(one, session))
      .map((one) => ({ ...one, untilSeconds: untilSeconds(one) })),
  ];
  if (ahead.length > 0) throw began(ahead, session);
}

/** Throws the same in the first round, when nobody else plays it any more. */
export function assertCompany(heard: number, session: Session): void {
  if (heard > 1 || !mayBeLate(session)) return;
  const ahead = aheadOf(session);
  if (ahead.length > 0 && livePeers(session).length === ahead.length) {
    throw began(ahead.map(signOf), session);
  }
}

/** What shows that somebody is in a later round, and until when it does. */
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
      !hasOtherTerms(each, plan),
  );
}

/** Peers in a later round whose state this worker has no part in. */
const aheadOf = (session: Session): readonly Heartbeat[] =>
  livePeers(session).filter(
    ({ round, cohort = [] }) => round > 0 && !cohort.includes(session.ports.wire.me),
  );

/** A gradient of a later round by somebody who trains on: heartbeats are rare where relays limit them. */
function isOfTheRun({ worker, round, createdAt }: Gradient, session: Session): boolean {
  const { plan, ports } = session;
  const { wire, clock } = ports;
  const peer = wire.heartbeats.get(worker);
  if (worker === wire.me || round === 0) return false;
  if (peer && (peer.leaving || hasOtherTerms(peer, plan))) return false;
  return createdAt + patienceSeconds(session) >= clock.now() / 1000;
}

/** How long a gradient says that somebody trains. */
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
    `${worker.slice(0, 8)} trains with a group you are not in: the run began before you came. ${where}`,
    {
      hint: `go on with the folder you trained in before (--dir DIR), or start a run of another name with everybody (--run NAME); where those workers were killed and nobody trains there any more, its name is free in ${freeInSeconds} s; certified runs take newcomers: nostrain run create`,
      data: { round, freeInSeconds },
    },
  );
}
