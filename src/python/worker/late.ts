/**
 * Gradients that missed their round, in the Python reference's profile: looked for when the next one begins, and folded in once.
 * Without certificates nobody decides which ones count: workers end in the same bits only where all of them saw the same.
 */

import { roundName, roundNumber } from '../../run/round-name.ts';
import type { LateGradient } from '../wire/late-record.ts';
import { NOTHING_LATE } from '../wire/round-record.ts';
import type { History } from './history.ts';
import { reconcile } from './reconcile.ts';
import type { PythonState, RecordedSession } from './session.ts';

/** Late gradients remembered in all: they are kept with every checkpoint. */
const MOST_LATE = 4096;

/** The state the round is to start from. Unchanged where no records are kept, or the round's gradient is sealed. */
export async function foldLate(state: PythonState, session: RecordedSession): Promise<PythonState> {
  const { reference, events, notes, plan, ports, signal } = session;
  const { history, round } = state;
  if (!history || state.sent || round === 0 || history.lateSince === undefined) {
    return state;
  }
  signal.throwIfAborted();
  const { isCompatible } = reference;
  const waitMs = Math.min(reference.lateWaitMs, plan.roundTimeoutMs);
  const since = isCompatible ? history.lateSince + 1 : undefined;
  const found = await events.late({ round, since, waitMs });
  const late = isCompatible ? merged(history.late, found) : taken(found, history, round, session);
  notes.late = late.filter((one) => !history.late.includes(one));
  const fold = reconcile(
    { params: state.params, momentum: state.momentum, late },
    {
      round,
      rule: reference.late,
      limits: reference.limits,
      now: Math.floor(ports.clock.now() / 1000),
    },
  );
  const { done, errors } = fold;
  if (done)
    ports.report({
      type: 'notice',
      message: `${words(done.eventIds.length)} of round ${done.lateRounds.map(roundNumber).join(', ')} folded in before ${roundName(round)}`,
    });
  return {
    ...state,
    params: fold.params,
    momentum: fold.momentum,
    history: {
      ...history,
      late: fold.late,
      reconciliations: done ? [...history.reconciliations, done] : history.reconciliations,
      lateSince: Math.max(history.lateSince, ...found.map(({ createdAt }) => createdAt)),
      folded: done
        ? {
            count: done.eventIds.length,
            weight: done.totalWeight,
            workers: done.workers,
            rounds: done.lateRounds,
            digestBefore: done.digestBefore,
            digestAfter: done.digestAfter,
            errors,
          }
        : { ...NOTHING_LATE, errors },
    },
  };
}

const words = (count: number): string =>
  count === 1 ? 'a late gradient' : `${count} late gradients`;

/** As the Python reference remembers them: whatever is new by its event id. */
function merged(known: readonly LateGradient[], found: readonly LateGradient[]): LateGradient[] {
  const ids = new Set(known.map(({ eventId }) => eventId));
  return [...known, ...found.filter(({ eventId }) => !ids.has(eventId))];
}

/** Those that never counted, one per worker and round, made from the state this worker held in that round. */
function taken(
  found: readonly LateGradient[],
  { records, late }: History,
  round: number,
  { ports: { wire, report } }: RecordedSession,
): LateGradient[] {
  const known = new Set(late.map(slot));
  const isNew = (one: LateGradient) => {
    const record = records.find((each) => each.round === one.round);
    if (!record || one.worker === wire.me || known.has(slot(one))) return false;
    if (record.collectedWorkers.includes(one.worker)) return false;
    if (one.base === record.digestBefore) return true;
    const detail = `late for ${roundName(one.round)}, started from ${one.base}, we from ${record.digestBefore}`;
    report({ type: 'refused', round, worker: one.worker, reason: 'base-mismatch', detail });
    return false;
  };
  return [...late, ...found.filter(isNew).slice(0, Math.max(0, MOST_LATE - late.length))];
}

const slot = ({ round, worker }: LateGradient): string => `${round}:${worker}`;
