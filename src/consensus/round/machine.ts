/**
 * The BFT round as a state machine: a pure function from state and input to state and effects. Repeated and reordered
 * inputs do not change what can be finalized (docs/rounds.md).
 */
import type { EventId, WorkerId } from '../../run/ids.ts';
import { commit, finalize, prepare, propose } from './phases.ts';
import { receive } from './receive.ts';
import {
  type Activation,
  type Check,
  change,
  type Effect,
  type Input,
  type RoundContext,
  type RoundState,
} from './round-state.ts';
import { type Beginning, closingTime, graceOf, listensUntil, viewLength } from './timing.ts';
import { changeView, joinEpoch, nextWake, viewsOfOthers } from './views.ts';

/** The initial state of a round. A worker that lost its signed votes votes only from recovery epoch `voteFrom` on. */
export function beginRound(context: RoundContext, beginning: Beginning, voteFrom = 0): RoundState {
  return {
    round: context.round,
    ...beginning,
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

/** The rules of a round in the order of its phases. Each takes at most one action and returns whether it did. */
const RULES = [close, finalize, changeView, joinEpoch, propose, prepare, commit];

/** Maximum actions after one input: a step has a few for each view and recovery epoch that it enters. */
const MOST_ACTIONS = 1000;

/**
 * Processes one input, then applies the rules until no rule acts. Pure: returns the new state and the effects. Throws
 * after `MOST_ACTIONS` actions: then a rule acts without end, which is a bug.
 */
export function step(
  context: RoundContext,
  state: RoundState,
  input: Input,
  now: number,
): { readonly state: RoundState; readonly effects: readonly Effect[] } {
  const activation: Activation = { context, now, state, effects: [], heard: false };
  take(activation, input);
  const isNothingNew = activation.state === state && now < state.wakeAt;
  if (isNothingNew) return activation;
  for (let actions = 0; RULES.some((rule) => rule(activation)); actions++) {
    if (actions >= MOST_ACTIONS) throw new Error('a rule of the round acts without end');
  }
  const at = nextWake(activation);
  if (at !== activation.state.wakeAt) change(activation, { wakeAt: at });
  return { state: activation.state, effects: activation.effects };
}

function take(activation: Activation, input: Input): void {
  if (input.type === 'held') hold(activation, input.worker, input.manifest);
  if (input.type === 'message') receive(activation, input.message);
  if (input.type === 'checked') learn(activation, input.check);
  if (input.type === 'restart') resume(activation);
  if (input.type === 'composed') {
    learn(activation, input.check);
    change(activation, { composed: input.composed });
  }
}

/** Records a complete contribution. A worker's first one counts as on time, if this member has not closed the round. */
function hold(activation: Activation, worker: WorkerId, manifest: EventId): void {
  const { held, closed, begun } = activation.state;
  if (closed !== null || held.some((each) => each.worker === worker)) return;
  change(activation, { held: [...held, { worker, manifest, delay: activation.now - begun }] });
}

/** Stores a validity check; a newer check of the same outcome replaces it. */
const learn = (activation: Activation, check: Check): true =>
  change(activation, {
    checks: [...activation.state.checks.filter(({ digest }) => digest !== check.digest), check],
  });

/** Sends the last signed messages again, unchanged, after a restart: they may not have reached the relays. */
function resume(activation: Activation): void {
  const { sent, attempt, view } = activation.state;
  for (const message of sent) {
    if (message.attempt !== attempt) continue;
    if (message.type !== 'ballot' && message.view !== view) continue;
    activation.effects.push({ type: 'send', message });
  }
  change(activation, { wakeAt: -1 });
}

/** Reports whether all live workers have contributed. */
function hasAll({ live }: RoundContext, { held }: RoundState): boolean {
  if (held.length < live.length) return false;
  const contributors = new Set(held.map(({ worker }) => worker));
  return live.every((key) => contributors.has(key));
}

export type ClosingDecision =
  | { readonly type: 'wait'; readonly remainingMs: number }
  /** `empty`: no contribution arrived in time, so that a void outcome is acceptable. */
  | { readonly type: 'close'; readonly empty: boolean };

/** Decides whether to keep waiting for contributions: until all live workers have contributed or the grace is over. */
export function decideClosing(
  context: RoundContext,
  state: RoundState,
  now: number,
): ClosingDecision {
  const remainingMs = closingTime(state, context) - now;
  if (remainingMs > 0 && !hasAll(context, state)) return { type: 'wait', remainingMs };
  return { type: 'close', empty: state.held.length === 0 };
}

/**
 * Stops collecting contributions and starts view 0, at the latest when more than K - k members have. Replays do not
 * depend on this time.
 */
function close(activation: Activation): boolean {
  const { context, state, now } = activation;
  if (state.closed !== null || state.decided !== null) return false;
  const decision = decideClosing(context, state, now);
  const { size, quorum } = context.committee;
  const isFollowing =
    now >= listensUntil(state, context) && viewsOfOthers(activation)[size - quorum] !== undefined;
  if (decision.type === 'wait' && !isFollowing) return false;
  // if no member has continued the round, all returning members begin it together
  const { back } = state;
  if (back !== null && !isFollowing && state.held.length <= size - quorum) {
    return change(activation, { begun: back, back: null });
  }
  const { viewMs, recoveryMs } = context.timing;
  // views count from the deadline, also for a member that was away then
  const due = state.begun + graceOf(context.delays, context.timing);
  const at = back === null ? now : Math.min(now, due);
  return change(activation, {
    closed: { at, empty: decision.type === 'close' && decision.empty },
    view: 0,
    viewEnds: at + viewLength(viewMs, 0),
    attemptEnds: recoveryMs === 0 ? Number.MAX_SAFE_INTEGER : at + recoveryMs,
  });
}
