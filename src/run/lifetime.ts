/**
 * How long the events that decide a run have to stay on relays (NIP-40): to its end as planned, and long enough after it to archive them.
 * An event that ends earlier counts for nobody, since its author could make the past unreadable by it.
 */
import type { RunSpec } from './spec/run-spec.ts';

const DAY = 86_400;
/** After the end of the run. */
const ARCHIVE_SECONDS = 30 * DAY;
/** Own events are dated so much beyond, since clocks differ and rounds take longer. */
const MARGIN_SECONDS = 60 * DAY;
/** A plan of a century of rounds binds nobody. */
const MOST_SECONDS = 3650 * DAY;
/** Views that a round may take in the plan. */
const VIEWS = 4;

/** So many rounds at the longest that they are planned to take. */
function plannedSeconds({ timing }: RunSpec, rounds: number): number {
  const roundMs = timing.graceMaxMs + VIEWS * timing.viewMs;
  return Math.min(MOST_SECONDS, Math.ceil((rounds * roundMs) / 1000));
}

/** What an event of this round must last, from its date or the outcome before, whichever is later. */
export const leastSeconds = (spec: RunSpec, round: number): number =>
  plannedSeconds(spec, Math.max(0, spec.training.rounds - round)) + ARCHIVE_SECONDS;

/** What relays are asked for when an event is signed: enough in every round of the run. */
export const keptSeconds = (spec: RunSpec): number => leastSeconds(spec, 0) + MARGIN_SECONDS;
