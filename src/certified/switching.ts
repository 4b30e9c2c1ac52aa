/** Switching to another branch: the worker's state at its end, with what that branch does not count back in the residual. */
import type { Wire } from '../network/wire/wire.ts';
import type { Digest } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { ResidualRule } from '../run/settings.ts';
import { giveBack, takeAgain } from '../worker/residual.ts';
import { idOf } from '../worker/state.ts';
import type { Better } from './branches.ts';
import { isSettledBy } from './carry-over.ts';
import { type ChainHead, chainHeadOf } from './chain-state.ts';
import type { CertifiedState, Contributed } from './events.ts';
import type { Path } from './path.ts';
import { assignmentOf } from './submissions.ts';

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
