/** What a worker takes along from a round, or to another branch: everything it learned that no outcome took, and what the next one may still take. */
import type { Wire } from '../network/wire/wire.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { ResidualRule } from '../run/settings.ts';
import { CHUNK_LENGTH } from '../tensor/partial-vector.ts';
import { giveBack, takeAgain } from '../worker/residual.ts';
import { idOf, type Sent } from '../worker/state.ts';
import type { Better } from './branches.ts';
import { type Certified, type ChainHead, chainHeadOf } from './chain-state.ts';
import type { CertifiedState, Contributed } from './events.ts';
import type { Path } from './path.ts';
import { assignmentOf, termsOf } from './rows.ts';

type Carried = Pick<CertifiedState, 'sent' | 'unpacked' | 'residual' | 'pending' | 'contributed'>;

/**
 * Under `discard` what was not listed is back at once. Under `defer` it stays out for one more outcome, which lists it late or gives
 * it back: never both. A contribution that was rejected for a reason is gone.
 */
export function carryOver(
  { sent, unpacked, residual, pending, contributed = [] }: Carried,
  state: Certified,
  outcome: Outcome,
  { wire, rule }: { readonly wire: Pick<Wire, 'me' | 'open'>; readonly rule: ResidualRule },
): Pick<CertifiedState, 'residual' | 'pending' | 'contributed'> {
  const { accepted } = outcome;
  const counted = accepted.map(({ manifest }) => manifest);
  const isSettled = sent !== undefined && isSettledBy(sent, outcome);
  const waits = sent !== undefined && !isSettled && state.spec.late === 'defer';
  const isOut = waits || isSettled;
  const assignment = assignmentOf(termsOf(state, false)!);
  const rows = accepted.filter(({ late }) => !late);
  const others = new Set<WorkerId>(rows.map(({ index }) => state.ledger.members[index]!.key));
  const fate = {
    sent: assignment.chunksOf(wire.me),
    isSettled: isOut,
    moved: new Set([...others].flatMap((worker) => [...assignment.chunksOf(worker)])),
  };
  const left = unpacked === undefined ? residual : residualAfter(unpacked, residual, fate);
  const lost = pending !== undefined && !counted.includes(idOf(pending)) ? pending : undefined;
  return {
    residual: lost ? returned(lost) : left,
    pending: waits ? sent : undefined,
    contributed: contributedAfter(contributed, state, sent && { sent, isOut }, lost),
  };

  function returned(gradient: NonNullable<typeof pending>): Float64Array {
    const past = termsOf(state, true)!;
    const place = { round: past.round, assignment: assignmentOf(past) };
    return giveBack(left, wire.open(gradient, place), rule);
  }
}

/** Rounds that are remembered at most, however deep a run lets its workers go back: each is a payload on disk. */
const MOST_KEPT = 64;

/** Whether an outcome says anything of it. */
function isSettledBy(sent: Sent, { accepted, rejected }: Outcome): boolean {
  const id = idOf(sent);
  return [...accepted, ...rejected].some(({ manifest }) => manifest === id);
}

/** The list after a round: `now` was sent in it, `lost` is what it gave back of the round before. */
function contributedAfter(
  known: readonly Contributed[],
  { round, parent, modelRoot: base, ledger, spec }: Certified,
  now: Pick<Contributed, 'sent' | 'isOut'> | undefined,
  lost: Sent | undefined,
): readonly Contributed[] {
  const id = lost && idOf(lost);
  const before = known.map((each) =>
    id !== undefined && idOf(each.sent) === id ? { ...each, isOut: false } : each,
  );
  const past = { round, parent, base, ledger };
  const kept = Math.min(Math.max(1, spec.timing.reorgDepth), MOST_KEPT);
  return [...before, ...(now ? [{ ...now, past }] : [])].slice(-kept);
}

export interface Fate {
  /** Chunks this worker sent. */
  readonly sent: Iterable<number>;
  /** Whether its contribution was listed, or refused for a good reason. */
  readonly isSettled: boolean;
  /** Chunks that some listed contribution moved. */
  readonly moved: Iterable<number>;
}

/**
 * The residual after a round: `after` (what was left when the payload had been packed) where the payload counted or another
 * worker's took its place, and `before` (all that was learned) in chunks of which nothing came.
 */
function residualAfter(
  before: Float64Array,
  after: Float64Array,
  { sent, isSettled, moved }: Fate,
): Float64Array {
  const own = new Set(sent);
  const others = new Set(moved);
  const residual = Float64Array.from(before);
  const chunks = Math.ceil(residual.length / CHUNK_LENGTH);
  for (let chunk = 0; chunk < chunks; chunk++) {
    const isGone = own.has(chunk) ? isSettled : others.has(chunk);
    if (!isGone) continue;
    const from = chunk * CHUNK_LENGTH;
    residual.set(after.subarray(from, from + CHUNK_LENGTH), from);
  }
  return residual;
}

/** Rounds of branches it left that a worker remembers, so that it signs nothing there a second time. */
const MOST_LEFT = 256;

interface Means {
  readonly wire: Pick<Wire, 'open'>;
  readonly rule: ResidualRule;
}

/** The state at the end of the better branch. What is out of the residual is what that branch counts, and nothing else. */
export function switchTo(
  { path, state, votes, fork }: Better,
  before: CertifiedState,
  means: Means,
): CertifiedState {
  const { sent: _, unpacked, pending: __, contributed = [], ...rest } = before;
  const outcomes = outcomesAfter(path);
  const { run, spec } = state;
  // what was sent in the round in progress is of a past that is gone
  let residual = unpacked ?? before.residual;
  let pending: CertifiedState['pending'];
  const kept: Contributed[] = [];
  for (const each of contributed) {
    const place = placeOf(each, outcomes, spec.late === 'defer');
    const isOut = place !== 'back';
    if (isOut !== each.isOut) {
      const { layout } = state.params;
      const assignment = assignmentOf({ spec, run, ...each.past, layout });
      const opened = means.wire.open(each.sent, { round: each.past.round, assignment });
      residual = (isOut ? takeAgain : giveBack)(residual, opened, means.rule);
    }
    if (place === 'pending') pending = each.sent;
    kept.push({ ...each, isOut });
  }
  return {
    ...rest,
    round: state.round,
    params: state.params,
    momentum: state.momentum,
    residual,
    pending,
    unpacked: undefined,
    sent: undefined,
    contributed: kept,
    rounds: rest.rounds.filter(({ index }) => index < fork),
    head: chainHeadOf(state, votes, leftBy(before.head)),
  };
}

/** By the outcome they follow. */
const outcomesAfter = ({ stops }: Path): ReadonlyMap<Digest, Outcome> =>
  new Map(
    [...stops.values()].flatMap(({ outcome }) => (outcome ? [[outcome.parent, outcome]] : [])),
  );

/** What a branch makes of a contribution: it is listed, it may still be, or it belongs back into the residual. */
function placeOf(
  { sent, past }: Contributed,
  outcomes: ReadonlyMap<Digest, Outcome>,
  isDeferring: boolean,
): 'listed' | 'pending' | 'back' {
  const own = outcomes.get(past.parent);
  if (own === undefined) return 'back';
  if (isSettledBy(sent, own)) return 'listed';
  if (!isDeferring) return 'back';
  const following = [...outcomes.values()].find(({ round }) => round === past.round + 1);
  if (following === undefined) return 'pending';
  const isLate = following.accepted.some(({ manifest }) => manifest === idOf(sent));
  return isLate ? 'listed' : 'back';
}

/** Rounds in which this worker may have signed something. */
const leftBy = ({ left, recent }: ChainHead): readonly Digest[] =>
  [...new Set([...left, ...recent])].slice(-MOST_LEFT);
