/**
 * One round as one worker plays it: a pure function from a state and an input to the next state and what is to be done.
 * It signs nothing, sends nothing, computes no roots and has no clock. What arrives twice or in another order makes no
 * difference to what can be finalized. docs/rounds.md says the same in words.
 */
import type { EventId, WorkerId } from '../../run/ids.ts';
import { commit, finalize, judgeCertificate } from './commit.ts';
import { close } from './observe.ts';
import { prepare } from './prepare.ts';
import { propose } from './propose.ts';
import { receive } from './receive.ts';
import { joinAttempt } from './recovery.ts';
import {
  type Check,
  change,
  type Effect,
  type Input,
  type RoundContext,
  type RoundState,
  type Turn,
} from './round-state.ts';
import { changeView, nextWake } from './views.ts';

/** A round at its beginning. A worker that lost what it signed votes again from a later attempt on. */
export function beginRound(context: RoundContext, now: number, voteFrom = 0): RoundState {
  return {
    round: context.round,
    begun: now,
    held: [],
    closed: null,
    attempt: 0,
    view: -1,
    viewEnds: Number.MAX_SAFE_INTEGER,
    attemptEnds: Number.MAX_SAFE_INTEGER,
    voteFrom,
    lock: null,
    sent: [],
    composed: null,
    votes: [],
    ballots: [],
    checks: [],
    drawn: {},
    asked: [],
    faulty: [],
    decided: null,
    conflicts: [],
    wakeAt: 0,
  };
}

/** The rules of a round, in the order of its phases. Each does at most one thing and says whether it did. */
const RULES = [close, finalize, changeView, joinAttempt, propose, prepare, commit];

/** Takes one input in and applies the rules until none has anything to do. */
export function step(
  context: RoundContext,
  state: RoundState,
  input: Input,
  now: number,
): { readonly state: RoundState; readonly effects: readonly Effect[] } {
  const turn: Turn = { context, now, state, effects: [], heard: false };
  take(turn, input);
  const isNothingNew = turn.state === state && now < state.wakeAt;
  if (isNothingNew) return turn;
  while (RULES.some((rule) => rule(turn)));
  const at = nextWake(turn);
  if (at !== turn.state.wakeAt) {
    turn.effects.push({ type: 'wake', at });
    change(turn, { wakeAt: at });
  }
  return { state: turn.state, effects: turn.effects };
}

function take(turn: Turn, input: Input): void {
  if (input.type === 'held') hold(turn, input.worker, input.manifest);
  if (input.type === 'message') receive(turn, input.message);
  if (input.type === 'checked') learn(turn, input.check);
  if (input.type === 'restart') resume(turn);
  if (input.type === 'composed') {
    learn(turn, input.check);
    change(turn, { composed: input.composed });
  }
  if (input.type === 'certificate') judgeCertificate(turn, input.proposal, input.commits);
}

/** A manifest is here in full. Only the first of a worker, and only before closing, is on time. */
function hold(turn: Turn, worker: WorkerId, manifest: EventId): void {
  const { held, closed, begun } = turn.state;
  if (closed !== null || held.some((each) => each.worker === worker)) return;
  change(turn, { held: [...held, { worker, manifest, delay: turn.now - begun }] });
}

/** The latest finding about an outcome counts. */
const learn = (turn: Turn, check: Check): true =>
  change(turn, {
    checks: [...turn.state.checks.filter(({ digest }) => digest !== check.digest), check],
  });

/** After a restart nobody knows whether what was signed last went out: the same goes out again. */
function resume(turn: Turn): void {
  const { sent, attempt, view } = turn.state;
  for (const message of sent) {
    if (message.attempt !== attempt) continue;
    if (message.type !== 'ballot' && message.view !== view) continue;
    turn.effects.push({ type: 'send', message });
  }
  change(turn, { wakeAt: -1 });
}
