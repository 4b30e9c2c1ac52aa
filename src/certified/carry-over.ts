/**
 * What a worker takes along from a round: everything it learned that no outcome listed, what the next outcome may still list, and what it
 * takes to give a contribution back when the run turns out to have gone another way.
 */
import type { Wire } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { ResidualRule } from '../run/settings.ts';
import { CHUNK_LENGTH } from '../tensor/partial-vector.ts';
import { giveBack } from '../worker/residual.ts';
import { idOf, type Sent } from '../worker/state.ts';
import type { Certified } from './chain-state.ts';
import type { CertifiedState, Contributed } from './events.ts';
import { termsOf } from './rows.ts';
import { assignmentOf } from './submissions.ts';

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
export function isSettledBy(sent: Sent, { accepted, rejected }: Outcome): boolean {
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
