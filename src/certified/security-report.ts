/**
 * Security report of a run from its spec alone: events and bytes per round, the shortest round on public relays, who
 * decides, and warnings if timing, beacon or trust are weak.
 */

import { layoutOf } from '../model/from-settings.ts';
import { mostPayloadBytes } from '../network/codec/codecs.ts';
import {
  floorSeconds,
  PUBLIC_BUDGET,
  type RoundCost,
  roundCost,
  wholeSeconds,
} from '../network/wire/cost.ts';
import { leastRows } from '../run/aggregation.ts';
import type { Settings } from '../run/settings.ts';
import { settingsOf } from '../run/spec/read-spec.ts';
import { type RunSpec, runIdOf } from '../run/spec/run-spec.ts';
import type { Layout } from '../tensor/params.ts';

export interface ReportOptions {
  /** Default the founders. */
  readonly workers?: number | undefined;
  /** Workers that relays see behind one address. */
  readonly workersPerIp: number;
  /** How long a round is expected to last, training included; default not known. */
  readonly roundSeconds?: number | undefined;
  readonly relays: readonly string[];
  /** Payload bytes of one of `workers` workers; encoding a synthetic delta may take seconds. */
  measure(settings: Settings, layout: Layout, workers: number): number;
}

export interface SecurityReport {
  readonly workers: number;
  /** Seats of the committee, and how many decide. */
  readonly seats: number;
  readonly quorum: number;
  /** Of all workers together in a round whose first proposal is taken. */
  readonly eventsPerRound: number;
  /** Of one committee member to each relay: payload, vote, vote. */
  readonly eventsPerMember: number;
  readonly payloadBytes: number;
  /** Shortest round on a public relay; Infinity where none is long enough. */
  readonly floorSeconds: number;
  /** How long every round waits for its beacon: at most with drand, at least with blocks; 0 without. */
  readonly beaconSeconds: number;
  /** In a run with stakes: what a contribution weighs, and what becomes of keys without stake. */
  readonly stakeRule?: string;
  readonly warnings: readonly string[];
}

/** Larger models are reckoned with at what they need at most. */
const MOST_MEASURED = 2 ** 24;
/** A proposal or prepare, and a commit. */
const VOTES = 2;

/** Seats of a committee and how many of them decide. */
function seatsOf({ committee }: RunSpec, workers: number): { seats: number; quorum: number } {
  const seats = Math.min(committee.size, workers);
  const share = committee.quorum === 'bft' ? (2 * seats) / 3 : seats / 2;
  return { seats, quorum: Math.floor(share) + 1 };
}

/** What to expect of a run. */
export function securityReportOf(spec: RunSpec, options: ReportOptions): SecurityReport {
  const { workersPerIp, relays } = options;
  const workers = options.workers ?? spec.founders.length;
  const settings = settingsOf(spec, { relay: relays });
  const payloadBytes = payloadOf(spec, settings, (layout) =>
    options.measure(settings, layout, workers),
  );
  const { heartbeatInterval: heartbeatSeconds, stripe } = settings;
  const cost = roundCost({
    run: runIdOf(spec),
    payloadBytes,
    stripe,
    workers,
    relays,
    roundSeconds: options.roundSeconds ?? 60,
    heartbeatSeconds,
  });
  const fixedEvents = cost.fixedEvents + VOTES;
  const floor = floorSeconds({ ...PUBLIC_BUDGET, fixedEvents, heartbeatSeconds, workersPerIp });
  const { seats, quorum } = seatsOf(spec, workers);
  return {
    workers,
    seats,
    quorum,
    payloadBytes,
    eventsPerRound: workers * payloadEvents(cost) + VOTES * seats,
    eventsPerMember: payloadEvents(cost) + VOTES,
    floorSeconds: floor,
    beaconSeconds: beaconSeconds(spec),
    ...(spec.stake.source !== 'none' && { stakeRule: stakeRuleOf(spec) }),
    warnings: [
      ...warningsOfTime(spec, floor, { ...options, fixedEvents }),
      ...warningsOfTrust(spec, { seats, quorum, workers }),
    ].flatMap(([holds, words]) => (holds ? [words] : [])),
  };
}

/** What to warn of, and whether it holds. */
type Warning = readonly [holds: boolean, words: string];

/** Below `minStake` a key has no stake, whatever it holds. */
function stakeRuleOf({ committee: { weights, minStake } }: RunSpec): string {
  const least = BigInt(minStake) > 1n ? `less than ${minStake} of stake` : 'no stake';
  const rule =
    weights === 'stake'
      ? 'contributions weigh by stake, capped as votes are'
      : 'contributions of all keys with enough stake weigh alike';
  return `${rule}; keys with ${least} may join, own nothing and count for nothing`;
}

/** Measured where that is cheap. A spec may be of any size, and what exceeds its limit is refused anyway. */
function payloadOf(
  { limits, start, input }: RunSpec,
  settings: Settings,
  measure: (layout: Layout) => number,
): number {
  const layout = layoutOf(settings, { start, input });
  const most = Math.min(limits.payloadBytes, mostPayloadBytes(layout));
  if (layout.size > MOST_MEASURED) return most;
  return Math.min(most, measure(layout));
}

const payloadEvents = ({ commit, chunks }: RoundCost): number => commit.events + chunks.events;

/** The lag of the beacon, and up to a period until its next value. */
const beaconSeconds = ({ beacon }: RunSpec): number => {
  if (beacon.kind === 'none') return 0;
  return beacon.lagSeconds + (beacon.kind === 'drand' ? beacon.periodSeconds : 0);
};

/** Rounds wait for the slowest relay, for the beacon before anybody trains, and for the queue of one address. */
function warningsOfTime(
  spec: RunSpec,
  floor: number,
  {
    roundSeconds = Number.POSITIVE_INFINITY,
    workersPerIp,
    fixedEvents,
  }: ReportOptions & { readonly fixedEvents: number },
): readonly Warning[] {
  const { graceMinMs, graceMaxMs, skewMs } = spec.timing;
  const needed = Number.isFinite(floor) ? `${wholeSeconds(floor)} s` : 'more than heartbeats leave';
  const longest = graceMaxMs / 1000;
  const next = 'use a relay you run, a smaller payload, fewer workers behind one address';
  const hasBeacon = spec.beacon.kind !== 'none';
  const wait = beaconSeconds(spec);
  const least = Math.floor((2 * skewMs) / 1000) + 1;
  const events = fixedEvents * workersPerIp;
  const waiting = Math.max(0, events - PUBLIC_BUDGET.atOnce);
  const queueMs = (waiting * 60_000) / PUBLIC_BUDGET.perMinute;
  return [
    [
      longest < floor,
      `timing.graceMaxMs closes a round after ${longest} s; ` +
        `on public relays its events take ${needed}: ` +
        `rounds would end void. Raise it, or ${next}`,
    ],
    [
      roundSeconds < floor,
      `rounds of ${roundSeconds} s are under the floor of ${needed} on public relays: ` +
        `more --inner-steps, or ${next}`,
    ],
    [
      hasBeacon,
      `each round waits ${beaconWait(spec)} before anybody trains; ` +
        `with timing.skewMs ${skewMs} the lag may be ${least} s at the least`,
    ],
    [
      hasBeacon && roundSeconds < wait,
      `rounds of ${roundSeconds} s are shorter than the ${wait} s that they wait for the beacon`,
    ],
    [
      queueMs > graceMinMs,
      `timing.graceMinMs is ${graceMinMs}: on public relays the last of ${events} events from ` +
        `one address leaves after ${wholeSeconds(queueMs / 1000)} s, ` +
        'and a round that closes before is decided without it',
    ],
  ];
}

function beaconWait(spec: RunSpec): string {
  const { beacon } = spec;
  if (beacon.kind === 'none') return '0 s';
  const wait = beaconSeconds(spec);
  return beacon.kind === 'drand'
    ? `${beacon.lagSeconds} to ${wait} s for its beacon ` +
        `(beacon.lagSeconds, and up to one period of ${beacon.periodSeconds} s)`
    : `at least ${wait} s for its beacon (beacon.lagSeconds), ` +
        `and then until a block of ${beacon.chain} is final (on Ethereum some 15 minutes)`;
}

function warningsOfTrust(
  { committee, stake, admission, timing, aggregation }: RunSpec,
  {
    seats,
    quorum,
    workers,
  }: { readonly seats: number; readonly quorum: number; readonly workers: number },
): readonly Warning[] {
  const hasStakes = stake.source !== 'none';
  const least = leastRows(aggregation);
  const { recoveryMs, recoveryFloorPermille } = timing;
  return [
    [
      !hasStakes && admission.kind === 'open',
      'anybody may join and every key counts alike: nothing stops one person with many keys',
    ],
    [
      hasStakes,
      'a key that is not in the stake table trains in vain: it sends nothing, and nothing ' +
        'waits for it',
    ],
    [
      seats > 1 && quorum === seats,
      `${quorum} of ${seats} founders decide (${committee.quorum}): one away stalls the run`,
    ],
    [
      recoveryMs > 0 && recoveryFloorPermille <= 500,
      `timing.recoveryFloorPermille is ${recoveryFloorPermille}: ` +
        'half the roster or less may go on alone, so the run may fork',
    ],
    [
      workers < least,
      `${aggregation.rule} with ${aggregation.hostile} hostile needs the rows of ` +
        `${least} workers, ` +
        `${workers} are planned for: with fewer nothing moves`,
    ],
  ];
}
