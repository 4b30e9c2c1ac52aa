/** Who has been a member of a run, as far as events show: by certified outcomes, or by what members proposed where nobody can say what was certified. */

import { MOST_BODY_BYTES } from '../../network/attachments/bodies.ts';
import { heapChunks } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import { featureSet } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { certifiedAfter } from '../decisions/certificate.ts';
import type { Chain } from '../decisions/chain.ts';
import type { Gathered, Verdict } from '../decisions/evidence.ts';
import { applyToChain } from '../decisions/outcomes.ts';
import { toProposal } from '../wire/proposals.ts';

/** How far a run can be followed. */
export interface Followed {
  /** Whom its outcomes list, until now and in the round to come. */
  readonly keys: ReadonlySet<WorkerId>;
  /** The first round in which some branch ends. */
  readonly frontier: number;
  /** A branch ends because a beacon value or a table of stake is not here: it may go on. */
  readonly isBlind: boolean;
}

/** Every certified branch to its end, each outcome once. */
export function followAll(start: Chain, events: Gathered): Followed {
  const keys = new Set<WorkerId>();
  const chains = new Map<Digest, Chain>([[start.parent, start]]);
  let frontier = Number.POSITIVE_INFINITY;
  let isBlind = false;
  const note = (verdict: Verdict<unknown>) => {
    isBlind ||= 'missing' in verdict && verdict.missing.some(({ what }) => UNSEEN.includes(what));
  };
  // a map hands out what is added while it is gone through
  for (const chain of chains.values()) {
    for (const { key } of chain.ledger.members) keys.add(key);
    const after = certifiedAfter(chain, events);
    note(after);
    let goesOn = false;
    for (const { outcome, certificate } of after.ok ? after.value : []) {
      const next = applyToChain(chain, outcome, events);
      note(next);
      if (next.ok) chains.set(certificate.digest, next.value);
      goesOn ||= next.ok;
    }
    if (!goesOn) frontier = Math.min(frontier, chain.round);
  }
  return { keys, frontier, isBlind };
}

/** Without these nobody can say who could decide. */
const UNSEEN: readonly string[] = ['beacon', 'snapshot'];

/** A made-up key costs a member nothing where no chain can be followed: so many are asked for then. */
const MOST_BLIND = 4096;

/** Who joined by outcomes that founders and such keys proposed: where no chain can be followed, members are among them. */
export function namedBy(spec: RunSpec, events: readonly SignedEvent[]): readonly WorkerId[] {
  const chunks = heapChunks(events, MOST_BODY_BYTES);
  const joins = new Map<WorkerId, WorkerId[]>();
  for (const event of events) {
    const proposal = toProposal(event, chunks, featureSet(spec.features));
    if (!proposal?.ok) continue;
    const { key, outcome } = proposal.value;
    joins.set(key, [...(joins.get(key) ?? []), ...outcome.joins.map((join) => join.key)]);
  }
  const members = new Set(spec.founders);
  for (const member of members) {
    for (const key of joins.get(member) ?? []) if (members.size < MOST_BLIND) members.add(key);
  }
  return [...members];
}
