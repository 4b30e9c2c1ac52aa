/**
 * One worker's life, top to bottom: resume, then play every round until the run ends or the signal aborts.
 * A round is train, publish, collect, settle; where a committee certifies rounds it decides instead of collecting (certify.ts).
 * State is saved before a gradient is sent and after the outer step, so a killed worker goes on with the same bytes.
 */

import { afterTheEnd, playCertified } from '../certified/play-round.ts';
import { foldLate } from '../python/worker/late.ts';
import { untilPeersBegan } from '../python/worker/pace.ts';
import { closeRound, recordRound } from '../python/worker/record.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { stateDigest } from '../tensor/digest.ts';
import { publishCheckpoint } from './checkpoint.ts';
import { collect } from './collect.ts';
import { compareWithPeers } from './divergence.ts';
import { createHeart, liveWorkers } from './heart.ts';
import { hearPeers, waitForWorkers } from './join.ts';
import type { Session } from './session.ts';
import { settle } from './settle.ts';
import { divide } from './shares.ts';
import type { WorkerState } from './state.ts';
import { publish, work } from './work.ts';

/** Plays the rounds that are left, or until this worker is out by its own wish, and returns the final state. */
export async function runWorker(start: WorkerState, session: Session): Promise<WorkerState> {
  const { plan } = session;
  const heart = createHeart(session);
  const comparing = compareWithPeers(session);
  let state = start;
  try {
    for (;;) {
      if (state.round < plan.rounds) state = await foldLate(state, session);
      const { round, cohort, standing } = state;
      const digest = standing?.modelRoot ?? stateDigest(state.params, session.ports.createSha256);
      const pulse = { round, digest, cohort };
      comparing.hold(pulse);
      if (round >= plan.rounds || session.member?.hasLeft) {
        const elsewhere = await afterTheEnd(state, session);
        if (elsewhere) {
          state = elsewhere;
          continue;
        }
        await hearPeers(state, heart.tell(pulse), session);
        return state;
      }
      heart.say(pulse);
      if (round === 0 && !state.sent) await waitForWorkers(session);
      state =
        standing && session.member
          ? await playCertified({ ...state, standing }, session.member, session)
          : await playRound(state, digest, session);
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
    await untilPeersBegan(round, session);
    const trained = await work(state, { base, roster, shares }, session);
    await publish(trained, session);

    const publishedMs = clock.now();
    const reason = await collect(inbox, round, session);
    const secondsWaiting = (clock.now() - publishedMs) / 1000;

    const closing = { base, shares, reason, startedMs, secondsWaiting };
    const settled = await settle(trained, inbox, closing, session);
    const next = await recordRound(trained, settled, inbox.contributions.values(), session);
    await store.save(next);
    session.ports.report({ type: 'round', ...next.rounds.at(-1)! });
    const closed = { sent: publishCheckpoint(next, session), cohort: inbox.events.values() };
    return await closeRound(trained, next, closed, session);
  } finally {
    inbox.close();
  }
}

/** Who divides the parameters: those whose work made them, at first those who are seen to be there. */
const rosterOf = ({ sent, cohort }: WorkerState, session: Session): readonly WorkerId[] =>
  sent?.roster ?? cohort ?? liveWorkers(session);
