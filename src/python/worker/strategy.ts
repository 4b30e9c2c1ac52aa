/**
 * Rounds of the Python reference's profile: plain averaging, a checkpoint event after every round, and, where the Python reference's records
 * are kept, late gradients folded in before a round and a whole record of it after.
 */

import { notifiedOrDeadline } from '../../base/async.ts';
import { createAveraging } from '../../worker/averaging.ts';
import { runWorker } from '../../worker/loop.ts';
import type { Plan } from '../../worker/plan.ts';
import type { OpenRound, RoundStrategy } from '../../worker/strategy.ts';
import { meanByReciprocal } from '../outer-step.ts';
import { publishCheckpoint } from './checkpoint.ts';
import { foldLate } from './late.ts';
import { closeRound, inRound, recordRound } from './record.ts';
import {
  type Notes,
  notedPorts,
  type PythonSession,
  type PythonState,
  type RecordedSession,
  type Reference,
} from './session.ts';

/** Plays the rounds that are left and returns the final state. */
export function runPythonWorker(start: PythonState, session: PythonSession): Promise<PythonState> {
  const { reference } = session;
  if (!reference) return runWorker(start, session, createPlain(session));
  const notes: Notes = {};
  const plan = referencePlan(session.plan, reference);
  const ports = notedPorts(session.ports, reference, notes);
  const recorded: RecordedSession = { ...session, plan, ports, reference, notes };
  return runWorker(start, recorded, createRecorded(recorded));
}

/** The Python reference sends one heartbeat a round and looks for the heartbeat of the round. */
const referencePlan = (plan: Plan, { isCompatible, publishMs }: Reference): Plan => ({
  ...plan,
  heartbeatEachRound: true,
  publishTimeoutMs: publishMs,
  // a gradient is tried exactly as often as --relay-retries says
  waitsForRelays: false,
  refusesLate: false,
  // its workers count their timeout from the last gradient, say nothing of the state they ended in, and bound nothing
  ...(isCompatible && {
    timeoutSince: 'last-contribution',
    hearsFinalStates: false,
    normBound: 0,
  }),
});

/** Averaging with checkpoints, without records. */
function createPlain(session: PythonSession): RoundStrategy<PythonState> {
  const averaging = createAveraging<PythonState>(session, meanByReciprocal);
  return {
    ...averaging,
    async open(state) {
      const round = await averaging.open(state);
      return {
        ...round,
        async finish(played) {
          const result = await round.finish(played);
          const completed = async () => {
            const next = await result.completed();
            publishCheckpoint(next, session);
            return next;
          };
          return { state: result.state, completed };
        },
      };
    },
  };
}

function createRecorded(session: RecordedSession): RoundStrategy<PythonState> {
  const averaging = createAveraging<PythonState>(session, meanByReciprocal);
  return {
    ...averaging,
    async prepare(state) {
      const isOver = state.round >= session.plan.rounds;
      return { state: isOver ? state : await foldLate(state, session), isOver };
    },
    async open(state): Promise<OpenRound<PythonState>> {
      const round = await averaging.open(state);
      await untilPeersBegan(state.round, session);
      return {
        ...round,
        async finish(played) {
          const result = await round.finish(played);
          const { inbox } = result;
          session.notes.mean = result.mean;
          const next = await recordRound(
            played,
            result.state,
            inbox.contributions.values(),
            session,
          );
          const completed = async () => {
            await result.completed();
            const closed = {
              sent: publishCheckpoint(next, session),
              cohort: inbox.events.values(),
            };
            return closeRound(played, next, closed, session);
          };
          return { state: next, completed };
        },
      };
    },
  };
}

/**
 * Returns when the workers of the run are in this round, or after the round's timeout: workers of the Python reference do not see a
 * gradient dated before their own round began, so in a mixed fleet a fast worker waits for the others.
 */
async function untilPeersBegan(round: number, session: RecordedSession): Promise<void> {
  const { plan, ports, signal, reference } = session;
  if (!reference.isCompatible) return;
  const { clock, wire } = ports;
  const deadlineMs = clock.now() + plan.roundTimeoutMs;
  const wanted = plan.sync.strategy === 'strict' ? plan.sync.workers : 1;
  while (inRound(round, session).length < wanted && clock.now() < deadlineMs) {
    await notifiedOrDeadline(wire.changed, clock, deadlineMs, signal);
  }
}
