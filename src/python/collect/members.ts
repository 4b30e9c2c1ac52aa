/** Collections in the JSON members of the Python reference, in its order; what it does not have comes after them. */

import type { JsonObject } from '../../formats/python-json.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import { collectedEvent, collectedWhole } from '../wire/describe-event.ts';
import type { ReferenceEvent } from '../wire/reference-event.ts';
import {
  failureMembers,
  type RetryTotals,
  recoveryMembers,
  retryTotals,
  totalsMembers,
} from '../wire/retry-telemetry.ts';
import { type Agreed, newestAgreed } from './agreement.ts';
import { type CheckpointsFound, latestOf } from './checkpoints.ts';
import type { CollectedAt, Collection } from './collect.ts';
import type { Kept } from './event-collector.ts';
import {
  type GradientsFound,
  gradientRetries,
  invalidCount,
  isWeighted,
  weightOf,
} from './gradients.ts';
import { staleWorkersOf, type WorkersFound } from './workers.ts';

/** What `collect-events --json` prints; without events what `aggregate-round --summary-out` writes. */
export function gradientsMembers(found: GradientsFound, withEvents: boolean): JsonObject {
  const [only] = found.relays.length === 1 ? found.at : [];
  const { at, workers } = found;
  const members = only
    ? roundMembers(found, only, gradientRetries(found))
    : {
        ...severalRelays(found),
        ...roundBody(found, found),
        ...totalsMembers(gradientRetries(found)),
        failed_relays: found.failed.map(failureMembers),
        notices: found.notices,
        relay_results: at.map((each) =>
          roundMembers({ ...found, known: [], sync: found.syncAt }, each, retryTotals([each])),
        ),
      };
  return {
    ...members,
    ...(workers ? { heartbeat_discovery: workersMembers(workers, false) } : {}),
    ...(withEvents ? { events: wholes(found.events) } : {}),
    ...reasons(found),
  };
}

type Round = Pick<GradientsFound, 'run' | 'round' | 'sync' | 'known' | 'notices'>;
type Part = Pick<GradientsFound, 'events' | 'duplicates' | 'invalid' | 'reason'>;

/** One relay's share; with one relay it is all there is. */
const roundMembers = (
  found: Round,
  at: GradientsFound['at'][number],
  totals: RetryTotals,
): JsonObject => ({
  relay: at.relay,
  ...roundBody(found, at),
  ...totalsMembers(totals),
  notices: at.notices,
  ...recoveryMembers(at),
});

const roundBody = ({ run, round, known, sync }: Round, part: Part): JsonObject => ({
  run,
  round: BigInt(round),
  event_count: BigInt(part.events.length),
  workers: part.events.map(({ read }) => read.said.worker),
  known_workers: known,
  ...countMembers(part),
  sync_strategy: sync,
  completion_reason: part.reason,
  aggregation_weighted: isWeighted(part),
  total_aggregation_weight: BigInt(part.events.reduce((sum, { read }) => sum + weightOf(read), 0)),
});

/** What `discover-workers --json` prints. */
export function workersMembers(found: WorkersFound, withEvents: boolean): JsonObject {
  const { run, round } = found;
  const part = (of: Pick<WorkersFound, 'events' | 'duplicates' | 'invalid' | 'stale'>) => ({
    run,
    target_round: round === undefined ? null : BigInt(round),
    ...listMembers(of),
    stale_events: BigInt(of.stale.length),
  });
  const stale = staleWorkersOf(found);
  return {
    ...relayMembers(found, part),
    ...(withEvents ? { events: wholes(found.events) } : {}),
    ...(withEvents && stale.length > 0 ? { stale_workers: stale } : {}),
    ...(withEvents ? reasons(found) : {}),
  };
}

/** What `discover-checkpoints --json` prints; `states` are the agreements among the events found. */
export function checkpointsMembers(
  found: CheckpointsFound,
  states: readonly Agreed[],
  faults: number,
): JsonObject {
  const part = (of: Pick<CheckpointsFound, 'events' | 'duplicates' | 'invalid'>): JsonObject => ({
    run: found.run,
    ...listMembers(of),
  });
  const withLatest = ({ events }: Pick<CheckpointsFound, 'events'>): JsonObject => {
    const latest = latestOf(events);
    return latest ? { latest: collectedEvent(latest.read) } : {};
  };
  return {
    ...relayMembers(found, part, withLatest),
    events: wholes(found.events),
    agreement: agreementMembers(states, faults),
    ...reasons(found),
  };
}

function agreementMembers(states: readonly Agreed[], faults: number): JsonObject {
  const newest = newestAgreed(states, faults);
  return {
    assumed_faults: BigInt(faults),
    equal_hashes_needed: BigInt(faults + 1),
    newest_agreed: newest ? stateMembers(newest, faults) : null,
    states: states.map((state) => stateMembers(state, faults)),
  };
}

const stateMembers = (state: Agreed, faults: number): JsonObject => ({
  round: BigInt(state.round),
  next_round: BigInt(state.nextRound),
  model: state.model,
  authors: state.authors,
  equal_hashes: BigInt(state.authors.length),
  enough: state.authors.length > faults,
});

/** One relay's members, or those of several with each relay's own inside. */
function relayMembers<E extends ReferenceEvent>(
  found: Collection<E>,
  part: (of: Collection<E> | CollectedAt<E>) => JsonObject,
  last: (of: Collection<E> | CollectedAt<E>) => JsonObject = () => ({}),
): JsonObject {
  const one = (at: CollectedAt<E>): JsonObject => ({
    relay: at.relay,
    ...part(at),
    notices: at.notices,
    ...recoveryMembers(at),
    ...last(at),
  });
  const [only] = found.relays.length === 1 ? found.at : [];
  if (only) return one(only);
  return {
    ...severalRelays(found),
    ...part(found),
    ...totalsMembers(retryTotals([...found.at, ...found.failed])),
    failed_relays: found.failed.map(failureMembers),
    notices: found.notices,
    relay_results: found.at.map(one),
    ...last(found),
  };
}

const severalRelays = <E extends ReferenceEvent>({ relays, at }: Collection<E>): JsonObject => ({
  relays,
  successful_relays: at.map(({ relay }) => relay),
});

const listMembers = (of: {
  readonly events: readonly Kept[];
  readonly duplicates: number;
  readonly invalid: GradientsFound['invalid'];
}): JsonObject => ({
  event_count: BigInt(of.events.length),
  workers: of.events.map(({ read }) => read.said.worker),
  ...countMembers(of),
});

const countMembers = ({ duplicates, invalid }: Pick<Part, 'duplicates' | 'invalid'>) => ({
  duplicates_discarded: BigInt(duplicates),
  invalid_events: BigInt(invalidCount(invalid)),
});

const wholes = (events: readonly Kept[]) => events.map(({ read }) => collectedWhole(read));

/** Why events did not count, where some did not. */
function reasons({ invalid }: Pick<Part, 'invalid'>): JsonObject {
  if (invalid.size === 0) return {};
  const counted = [...invalid].sort(([a], [b]) => compareCodePoints(a, b));
  return { invalid_reasons: Object.fromEntries(counted.map(([why, n]) => [why, BigInt(n)])) };
}
