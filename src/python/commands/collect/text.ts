/** Collections as lines for people, in the Python reference's words and order; what it does not have comes after them. */

import { safeLine } from '../../../base/safe-text.ts';
import { roundName } from '../../../run/round-name.ts';
import { type Agreed, newestAgreed } from '../../collect/agreement.ts';
import { type CheckpointsFound, latestOf } from '../../collect/checkpoints.ts';
import type { Collection } from '../../collect/collect.ts';
import {
  type GradientsFound,
  gradientRetries,
  invalidCount,
  isWeighted,
  weightOf,
} from '../../collect/gradients.ts';
import { staleWorkersOf, type WorkersFound } from '../../collect/workers.ts';
import type { ReferenceEvent } from '../../wire/reference-event.ts';
import {
  type RelayAttempts,
  type RetryTotals,
  retriesOf,
  retryTotals,
} from '../../wire/retry-telemetry.ts';
import type { NativeWorker } from './native-wire.ts';

type Line = readonly [name: string, value: string | number];

const written = (lines: readonly Line[]): string =>
  lines.map(([name, value]) => `${name}: ${value}\n`).join('');

const list = (words: readonly string[]): string => (words.length === 0 ? '-' : words.join(', '));

/** `collect-events`. */
export function gradientsText(found: GradientsFound): string {
  const { run, round, sync, reason, events, known, workers } = found;
  const discovery = workers && retryTotals([...workers.at, ...workers.failed]);
  return written([
    ['relays', list(found.relays)],
    ['run', run],
    ['round', round],
    ['events', events.length],
    ['workers', list(namesOf(events))],
    ['known_workers', list(known)],
    ...counts(found),
    ['sync_strategy', sync],
    ['completion_reason', reason],
    ['aggregation', isWeighted(found) ? 'weighted-by-examples' : 'mean'],
    ['total_aggregation_weight', events.reduce((sum, { read }) => sum + weightOf(read), 0)],
    ...retries(found, gradientRetries(found)),
    ...(discovery ? [['heartbeat_discovery_retry_count', discovery.retries] as const] : []),
    ...troubles(found),
  ]).concat(events.length > 0 ? '' : noneOf('gradient', run));
}

/** `discover-workers`. */
export function workersText(found: WorkersFound): string {
  const stale = staleWorkersOf(found);
  return written([
    ['relays', list(found.relays)],
    ['run', found.run],
    ['target_round', found.round ?? '-'],
    ['events', found.events.length],
    ['workers', list(namesOf(found.events))],
    ...counts(found),
    ['stale_events', found.stale.length],
    ...retries(found, retryTotals([...found.at, ...found.failed])),
    ...(stale.length > 0 ? [['stale_workers', list(stale)] as const] : []),
    ...troubles(found),
  ]).concat(found.events.length > 0 ? '' : noneOf('worker', found.run));
}

/** `discover-workers` of a run on the other wire, which the Python reference does not know. */
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

/** For people, after the lines of the reference. */
const noneOf = (what: string, run: string): string =>
  `No ${what} of run "${safeLine(run)}" found.\n`;

/** `discover-checkpoints`. */
export function checkpointsText(
  found: CheckpointsFound,
  states: readonly Agreed[],
  faults: number,
): string {
  const latest = latestOf(found.events);
  const said = latest?.read.said;
  const slot = said?.slot === undefined ? '' : ` (slot ${said.slot})`;
  const equals = states.find(({ checkpoints }) => latest && checkpoints.includes(latest));
  return written([
    ['relays', list(found.relays)],
    ['run', found.run],
    ['events', found.events.length],
    ['workers', list(namesOf(found.events))],
    ['latest', said ? `round ${said.round}${slot} -> next ${said.nextRound}` : '-'],
    ...counts(found),
    ...retries(found, retryTotals([...found.at, ...found.failed])),
    ['latest_author', said?.worker ?? '-'],
    ['latest_equal_hashes', equals ? `${equals.authors.length} of ${faults + 1} needed` : '-'],
    ['newest_agreed', wordAgreed(newestAgreed(states, faults))],
    ...troubles(found),
  ]).concat(found.events.length > 0 ? '' : noneOf('checkpoint', found.run));
}

const wordAgreed = (state: Agreed | undefined): string =>
  state === undefined
    ? '-'
    : `round ${state.round} -> next ${state.nextRound}, model ${state.model}, by ${list(state.authors)}`;

const namesOf = (events: Collection<ReferenceEvent>['events']): readonly string[] =>
  events.map(({ read }) => read.said.worker);

const counts = (of: Pick<GradientsFound, 'duplicates' | 'invalid'>): readonly Line[] => [
  ['duplicates_discarded', of.duplicates],
  ['invalid_events', invalidCount(of.invalid)],
];

function retries(
  { relays, at }: { readonly relays: readonly string[]; readonly at: readonly RelayAttempts[] },
  totals: RetryTotals,
): readonly Line[] {
  const [only] = relays.length === 1 ? at : [];
  if (only) {
    const delays = only.delaysMs.map((ms) => (ms / 1000).toFixed(3));
    return [
      ['attempt_count', only.attempts],
      ['retry_count', retriesOf(only)],
      ['retry_delays', list(delays)],
    ];
  }
  return [
    ['total_retry_count', totals.retries],
    ['max_attempt_count', totals.mostAttempts],
    ['retried_relays', list(totals.retriedRelays)],
  ];
}

/** What went wrong, where something did: why events did not count, and which relays failed. */
const troubles = ({ invalid, failed }: Collection<ReferenceEvent>): readonly Line[] => [
  ...(invalid.size === 0
    ? []
    : [['invalid_reasons', list([...invalid].sort().map(([why, n]) => `${why} ${n}`))] as const]),
  ...failed.map(
    ({ relay, operation, message }) =>
      ['failed_relay', `${relay} (${operation}): ${safeLine(message)}`] as const,
  ),
];
