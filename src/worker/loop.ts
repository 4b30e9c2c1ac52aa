/**
 * One worker's life, top to bottom: resume, then play every round until the run ends or the signal aborts.
 * A round is train, publish, collect, settle. State is saved before a gradient is sent and after the outer step, so
 * a killed worker goes on with the same bytes.
 */
import { RelayError } from '../base/errors.ts';
import { within } from '../network/transport/deadline.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { stateDigest } from '../tensor/digest.ts';
import { publishCheckpoint } from './checkpoint.ts';
import { collect } from './collect.ts';
import { compareWithPeers } from './divergence.ts';
import { createHeart, liveWorkers } from './heart.ts';
import { hearPeers, waitForWorkers } from './join.ts';
import { tellWhile } from './moving.ts';
import type { Session } from './session.ts';
import { settle } from './settle.ts';
import { divide } from './shares.ts';
import type { Sent, WorkerState } from './state.ts';
import { type Start, trainAndSeal } from './train.ts';

/** Plays the rounds that are left and returns the final state. */
export async function runWorker(start: WorkerState, session: Session): Promise<WorkerState> {
  const { plan } = session;
  const heart = createHeart(session);
  const comparing = compareWithPeers(session);
  let state = start;
  try {
    for (;;) {
      const { round, cohort } = state;
      const pulse = { round, digest: stateDigest(state.params), cohort };
      comparing.hold(pulse);
      if (round >= plan.rounds) {
        await hearPeers(state, heart.tell(pulse), session);
        return state;
      }
      heart.say(pulse);
      if (round === 0 && !state.sent) await waitForWorkers(session);
      state = await playRound(state, pulse.digest, session);
    }
  } finally {
    await comparing.stop();
    await heart.stop();
  }
}

async function playRound(state: WorkerState, base: Digest, session: Session): Promise<WorkerState> {
  const { clock, wire, store } = session.ports;
  const { round, folded } = state;
  const startedMs = clock.now();
  const { plan } = session;
  const roster = rosterOf(state, session);
  const { run, owners, fragments } = plan;
  const { size } = state.params.layout;
  const shares = divide({ run, round, base, roster, owners, fragments, size });
  // opened first: what peers send while this one still trains is verified and decoded meanwhile
  const isAsync = plan.sync.strategy === 'async';
  const inbox = wire.openRound({
    round,
    base,
    shares,
    ...(isAsync ? { anyBase: { folded } } : {}),
  });
  try {
    const trained = hasSent(state)
      ? state
      : await trainAndSave(state, { base, roster, shares }, session);
    await publish(trained, session);

    const publishedMs = clock.now();
    const reason = await collect(inbox, round, session);
    const secondsWaiting = (clock.now() - publishedMs) / 1000;

    const closing = { base, shares, reason, startedMs, secondsWaiting };
    const next = await settle(trained, inbox, closing, session);
    await store.save(next);
    session.ports.report({ type: 'round', ...next.rounds.at(-1)! });
    publishCheckpoint(next, session);
    return next;
  } finally {
    inbox.close();
  }
}

/** Who divides the parameters: those whose work made them, at first those who are seen to be there. */
const rosterOf = ({ sent, cohort }: WorkerState, session: Session): readonly WorkerId[] =>
  sent?.roster ?? cohort ?? liveWorkers(session);

async function trainAndSave(state: WorkerState, start: Start, session: Session): Promise<Trained> {
  const trained = await trainAndSeal(state, start, session);
  await session.ports.store.save(trained);
  return trained;
}

type Trained = WorkerState & { readonly sent: Sent };

const hasSent = (state: WorkerState): state is Trained => state.sent !== undefined;

/** Returns once the relays have the gradient; what the slower ones said is reported when they have said it. */
async function publish({ round, sent }: Trained, session: Session): Promise<void> {
  const { plan, signal } = session;
  const { clock, wire, report } = session.ports;
  const { payloadBytes, eventBytes } = sent;
  const { taken, settled, moved } = wire.send(sent);
  const told = settled.then(({ accepted, failed }) => {
    report({ type: 'published', round, payloadBytes, eventBytes, relays: accepted, failed });
    return failed.map(({ relay, message }) => `${relay} ${message}`).join('; ');
  });
  const inTime = within(taken, plan.roundTimeoutMs, clock, signal);
  const isTaken = await (moved ? tellWhile(inTime, round, moved, session) : inTime);
  if (isTaken) return;
  const why = isTaken === undefined ? `none within ${plan.roundTimeoutMs / 1000} s` : await told;
  throw new RelayError(
    'relay/none-accepted',
    `no relay took the gradient of round ${round}: ${why}`,
    {
      hint: 'nothing is lost: see what the relays allow with `nostrain relays check URL`, then run the same command again',
    },
  );
}
