/** Formats collections as JSON and as lines: the Python reference's members in its order, then our own. */
import { safeLine } from '../../base/errors.ts';
import type { PythonJson, PythonObject } from '../../formats/python-json.ts';
import { roundName } from '../../run/ids.ts';
import { compareCodePoints } from '../../tensor/params.ts';
import type { CollectedAt, CollectedEvent, Collection } from '../collect/collect.ts';
import {
  type CollectedCheckpoints,
  type CollectedGradients,
  type CollectedWorkers,
  gradientRetries,
  invalidCount,
  isWeighted,
  latestOf,
  staleWorkersOf,
  weightOf,
} from '../collect/queries.ts';
import { collectedEvent, collectedWhole, type ReferenceEvent } from '../wire/reference-event.ts';
import {
  failureMembers,
  type RetryTotals,
  recoveryMembers,
  retryTotals,
  totalsMembers,
} from '../wire/retries.ts';
import { type Agreed, newestAgreed } from '../worker/start.ts';
import type { NativeWorker } from './relays.ts';

/** Returns the JSON of `collect-events --json`; without events that of `aggregate-round --summary-out`. */
export function gradientsMembers(collected: CollectedGradients, withEvents: boolean): PythonObject {
  const [only] = collected.relays.length === 1 ? collected.at : [];
  const { at, workers } = collected;
  const members = only
    ? roundMembers(collected, only, gradientRetries(collected))
    : {
        ...severalRelays(collected),
        ...roundBody(collected, collected),
        ...totalsMembers(gradientRetries(collected)),
        failed_relays: collected.failed.map(failureMembers),
        notices: collected.notices,
        relay_results: at.map((each) =>
          roundMembers(
            { ...collected, known: [], sync: collected.syncAt },
            each,
            retryTotals([each]),
          ),
        ),
      };
  return {
    ...members,
    ...(workers ? { heartbeat_discovery: workersMembers(workers, false) } : {}),
    ...(withEvents ? { events: wholes(collected.events) } : {}),
    ...reasons(collected),
  };
}

type Round = Pick<CollectedGradients, 'run' | 'round' | 'sync' | 'known' | 'notices'>;
type Part = Pick<CollectedGradients, 'events' | 'duplicates' | 'invalid' | 'reason'>;

/** Returns the members of one relay; with a single relay these are all members. */
const roundMembers = (
  collected: Round,
  at: CollectedGradients['at'][number],
  totals: RetryTotals,
): PythonObject => ({
  relay: at.relay,
  ...roundBody(collected, at),
  ...totalsMembers(totals),
  notices: at.notices,
  ...recoveryMembers(at),
});

const roundBody = ({ run, round, known, sync }: Round, part: Part): PythonObject => ({
  run,
  round: BigInt(round),
  event_count: BigInt(part.events.length),
  workers: part.events.map(({ read }) => read.tags.worker),
  known_workers: known,
  ...countMembers(part),
  sync_strategy: sync,
  completion_reason: part.reason,
  aggregation_weighted: isWeighted(part),
  total_aggregation_weight: BigInt(part.events.reduce((sum, { read }) => sum + weightOf(read), 0)),
});

/** Returns the JSON of `discover-workers --json`. */
export function workersMembers(collected: CollectedWorkers, withEvents: boolean): PythonObject {
  const { run, round } = collected;
  const part = (of: Pick<CollectedWorkers, 'events' | 'duplicates' | 'invalid' | 'stale'>) => ({
    run,
    target_round: round === undefined ? null : BigInt(round),
    ...listMembers(of),
    stale_events: BigInt(of.stale.length),
  });
  const stale = staleWorkersOf(collected);
  return {
    ...relayMembers(collected, part),
    ...(withEvents ? { events: wholes(collected.events) } : {}),
    ...(withEvents && stale.length > 0 ? { stale_workers: stale } : {}),
    ...(withEvents ? reasons(collected) : {}),
  };
}

/** Returns the JSON of `discover-checkpoints --json`; `states` are the agreements among the collected events. */
export function checkpointsMembers(
  collected: CollectedCheckpoints,
  states: readonly Agreed[],
  faults: number,
): PythonObject {
  const part = (
    of: Pick<CollectedCheckpoints, 'events' | 'duplicates' | 'invalid'>,
  ): PythonObject => ({
    run: collected.run,
    ...listMembers(of),
  });
  const withLatest = ({ events }: Pick<CollectedCheckpoints, 'events'>): PythonObject => {
    const latest = latestOf(events);
    return latest ? { latest: collectedEvent(latest.read) } : {};
  };
  return {
    ...relayMembers(collected, part, withLatest),
    events: wholes(collected.events),
    agreement: agreementMembers(states, faults),
    ...reasons(collected),
  };
}

function agreementMembers(states: readonly Agreed[], faults: number): PythonObject {
  const newest = newestAgreed(states, faults);
  return {
    assumed_faults: BigInt(faults),
    equal_hashes_needed: BigInt(faults + 1),
    newest_agreed: newest ? stateMembers(newest, faults) : null,
    states: states.map((state) => stateMembers(state, faults)),
  };
}

const stateMembers = (state: Agreed, faults: number): PythonObject => ({
  round: BigInt(state.round),
  next_round: BigInt(state.nextRound),
  model: state.model,
  authors: state.authors,
  equal_hashes: BigInt(state.authors.length),
  enough: state.authors.length > faults,
});

/** Returns the members of one relay, or of several relays with the members of each nested. */
function relayMembers<E extends ReferenceEvent>(
  collected: Collection<E>,
  part: (of: Collection<E> | CollectedAt<E>) => PythonObject,
  last: (of: Collection<E> | CollectedAt<E>) => PythonObject = () => ({}),
): PythonObject {
  const one = (at: CollectedAt<E>): PythonObject => ({
    relay: at.relay,
    ...part(at),
    notices: at.notices,
    ...recoveryMembers(at),
    ...last(at),
  });
  const [only] = collected.relays.length === 1 ? collected.at : [];
  if (only) return one(only);
  return {
    ...severalRelays(collected),
    ...part(collected),
    ...totalsMembers(retryTotals([...collected.at, ...collected.failed])),
    failed_relays: collected.failed.map(failureMembers),
    notices: collected.notices,
    relay_results: collected.at.map(one),
    ...last(collected),
  };
}

const severalRelays = <E extends ReferenceEvent>({ relays, at }: Collection<E>): PythonObject => ({
  relays,
  successful_relays: at.map(({ relay }) => relay),
});

const listMembers = (
  of: Pick<Collection<ReferenceEvent>, 'events' | 'duplicates' | 'invalid'>,
): PythonObject => ({
  event_count: BigInt(of.events.length),
  workers: of.events.map(({ read }) => read.tags.worker),
  ...countMembers(of),
});

const countMembers = ({ duplicates, invalid }: Pick<Part, 'duplicates' | 'invalid'>) => ({
  duplicates_discarded: BigInt(duplicates),
  invalid_events: BigInt(invalidCount(invalid)),
});

const wholes = (events: readonly CollectedEvent[]) =>
  events.map(({ read }) => collectedWhole(read));

/** Returns the counts of refused events by reason, if any. */
function reasons({ invalid }: Pick<Part, 'invalid'>): PythonObject {
  if (invalid.size === 0) return {};
  const counted = [...invalid].sort(([a], [b]) => compareCodePoints(a, b));
  return { invalid_reasons: Object.fromEntries(counted.map(([why, n]) => [why, BigInt(n)])) };
}

/** Formats the lines of `collect-events`. */
export function gradientsText(collected: CollectedGradients): string {
  const { workers } = collected;
  const discovery = workers && retryTotals([...workers.at, ...workers.failed]);
  const members = {
    ...gradientsMembers(collected, false),
    aggregation: isWeighted(collected) ? 'weighted-by-examples' : 'mean',
    ...(discovery && { heartbeat_discovery_retry_count: BigInt(discovery.retries) }),
  };
  const names = [
    'run',
    'round',
    'event_count',
    'workers',
    'known_workers',
    'duplicates_discarded',
    'invalid_events',
    'sync_strategy',
    'completion_reason',
    'aggregation',
    'total_aggregation_weight',
    ...retryNames(collected),
    'heartbeat_discovery_retry_count',
  ];
  return linesOf('gradient', collected, members, names);
}

/** Formats the lines of `discover-workers`. */
export const workersText = (collected: CollectedWorkers): string =>
  linesOf('worker', collected, workersMembers(collected, true), [
    'run',
    'target_round',
    'event_count',
    'workers',
    'duplicates_discarded',
    'invalid_events',
    'stale_events',
    ...retryNames(collected),
    'stale_workers',
  ]);

/** Formats the lines of `discover-checkpoints`. */
export function checkpointsText(
  collected: CollectedCheckpoints,
  states: readonly Agreed[],
  faults: number,
): string {
  const latest = latestOf(collected.events);
  const tags = latest?.read.tags;
  const slot = tags?.slot === undefined ? '' : ` (slot ${tags.slot})`;
  const equals = states.find(({ checkpoints }) => latest && checkpoints.includes(latest));
  const agreed = newestAgreed(states, faults);
  const by = agreed && `model ${agreed.model}, by ${list(agreed.authors)}`;
  const members = {
    ...checkpointsMembers(collected, states, faults),
    latest: tags ? `round ${tags.round}${slot} -> next ${tags.nextRound}` : null,
    latest_author: tags?.worker ?? null,
    latest_equal_hashes: equals ? `${equals.authors.length} of ${faults + 1} needed` : null,
    newest_agreed: agreed ? `round ${agreed.round} -> next ${agreed.nextRound}, ${by}` : null,
  };
  return linesOf('checkpoint', collected, members, [
    'run',
    'event_count',
    'workers',
    'latest',
    'duplicates_discarded',
    'invalid_events',
    ...retryNames(collected),
    'latest_author',
    'latest_equal_hashes',
    'newest_agreed',
  ]);
}

const retryNames = ({ relays, at }: Collection<ReferenceEvent>): readonly string[] =>
  relays.length === 1 && at.length === 1
    ? ['attempt_count', 'retry_count', 'retry_delays']
    : ['total_retry_count', 'max_attempt_count', 'retried_relays'];

/** Formats the relays, then the named members, then the reasons of refused events and the failed relays. */
function linesOf(
  what: string,
  collected: Collection<ReferenceEvent> & { readonly run: string },
  members: PythonObject,
  names: readonly string[],
): string {
  const lines = names
    .filter((name) => members[name] !== undefined)
    .map((name) => [name === 'event_count' ? 'events' : name, wordOf(members[name]!)] as const);
  const reasons = [...collected.invalid].sort().map(([why, count]) => `${why} ${count}`);
  return written([
    ['relays', list(collected.relays)],
    ...lines,
    ...(reasons.length > 0 ? [['invalid_reasons', list(reasons)] as const] : []),
    ...collected.failed.map(
      ({ relay, operation, message }) =>
        ['failed_relay', `${relay} (${operation}): ${safeLine(message)}`] as const,
    ),
  ]).concat(
    collected.events.length > 0 ? '' : `No ${what} of run "${safeLine(collected.run)}" found.\n`,
  );
}

const wordOf = (value: PythonJson): string => {
  if (value === null) return '-';
  if (!Array.isArray(value)) return String(value);
  return list(value.map((item) => (typeof item === 'number' ? item.toFixed(3) : String(item))));
};

const list = (words: readonly string[]): string => (words.length === 0 ? '-' : words.join(', '));

const written = (lines: readonly (readonly [name: string, value: string])[]): string =>
  lines.map(([name, value]) => `${name}: ${value}\n`).join('');

/** Formats the lines of `discover-workers` for a run on nostrain/1, which the Python reference does not know. */
export function nativeWorkersText(
  { run, relays }: { readonly run: string; readonly relays: readonly string[] },
  workers: readonly NativeWorker[],
): string {
  const live = workers.filter((each) => !each.isStale);
  const stale = workers.filter((each) => each.isStale).map(({ worker }) => worker);
  return written([
    ['relays', list(relays)],
    ['run', run],
    ['wire', 'nostrain/1'],
    ['workers', list(live.map(({ worker }) => worker))],
    ...(stale.length > 0 ? [['stale_workers', list(stale)] as const] : []),
    ...workers.map(({ worker, round }) => [worker, `in ${roundName(round)}`] as const),
  ]);
}
