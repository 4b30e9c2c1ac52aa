/** What a worker takes along from a round: everything it learned that no outcome took, and what the next one may still take. */
import type { Wire } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { ResidualRule } from '../run/settings.ts';
import { giveBack } from '../worker/residual.ts';
import { idOf } from '../worker/state.ts';
import { contributedAfter, isSettledBy } from './contributed.ts';
import type { CertifiedState } from './events.ts';
import type { Certified } from './history.ts';
import { residualAfter } from './residual.ts';
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
