/**
 * Security report of a run from its spec alone: events and bytes per round, the shortest round on public relays, who
 * decides, and warnings if timing, beacon or trust are weak.
 */

import { mostGuests } from '../consensus/round/seats.ts';
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
import { describeAdmission } from './invitations.ts';

export interface ReportOptions {
  /** Number of workers; default the founders. */
  readonly workers?: number | undefined;
  /** Workers that relays see behind one address. */
  readonly workersPerIp: number;
  /** Expected seconds per round, training included; default unknown. */
  readonly roundSeconds?: number | undefined;
  readonly relays: readonly string[];
  /** Payload bytes of one of `workers` workers; encoding a synthetic delta may take seconds. */
  measure(settings: Settings, layout: Layout, workers: number): number;
}

export interface SecurityReport {
  readonly workers: number;
  /** Committee seats, and the number that decides. */
  readonly seats: number;
  readonly quorum: number;
  /** Events of all workers in a round that is decided in its first view. */
  readonly eventsPerRound: number;
  /** Events that one committee member sends to each relay: payload and two votes. */
  readonly eventsPerMember: number;
  readonly payloadBytes: number;
  /** Shortest possible round on public relays in seconds; Infinity if they never allow one. */
  readonly floorSeconds: number;
  /** Seconds that each round waits for its beacon: at most with drand, at least with blocks; 0 without a beacon. */
  readonly beaconSeconds: number;
  /** In a run with stakes: how contributions weigh, and what keys without stake may do. */
  readonly stakeRule?: string;
  /** Who may join, and how to let others in. */
  readonly admissionRule: string;
  readonly warnings: readonly string[];
}

/** Maximum parameters of a model whose payload is measured; larger models are estimated by their upper bound. */
const MOST_MEASURED = 2 ** 24;
/** Votes per round of a committee member: a proposal or prepare, and a commit. */
const VOTES = 2;

/** Returns the seats of the committee and how many of them decide. */
function seatsOf(
  { committee, founders, foundersDecide }: RunSpec,
  workers: number,
): { seats: number; quorum: number } {
  const deciding = Math.min(founders.length, workers);
  const most = foundersDecide ? deciding + mostGuests(committee, deciding) : workers;
  const seats = Math.min(committee.size, workers, most);
  const share = committee.quorum === 'bft' ? (2 * seats) / 3 : seats / 2;
  return { seats, quorum: Math.floor(share) + 1 };
}

/** Computes the security report of a run. */
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
    admissionRule: describeAdmission(spec),
    ...(spec.stake.source !== 'none' && { stakeRule: stakeRuleOf(spec) }),
    warnings: [
      ...warningsOfTime(spec, floor, { ...options, fixedEvents }),
      ...warningsOfTrust(spec, { seats, quorum, workers }),
    ].flatMap(([holds, words]) => (holds ? [words] : [])),
  };
}

/** A warning, and whether it applies. */
type Warning = readonly [holds: boolean, words: string];

/** Describes how stakes count; below `minStake` a key counts as having none. */
function stakeRuleOf({ committee: { weights, minStake } }: RunSpec): string {
  const least = BigInt(minStake) > 1n ? `less than ${minStake} of stake` : 'no stake';
  const rule =
    weights === 'stake'
      ? 'contributions are weighted by stake, with the same cap as votes'
      : 'contributions of all keys with enough stake have the same weight';
  return `${rule}; keys with ${least} may join, own nothing and count for nothing`;
}

/**
 * Returns the payload size in bytes, measured for small models. Never above the spec's limit, beyond which payloads are
 * refused.
 */
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

/** Returns the lag of the beacon plus up to one drand period, in seconds. */
const beaconSeconds = ({ beacon }: RunSpec): number => {
  if (beacon.kind === 'none') return 0;
  return beacon.lagSeconds + (beacon.kind === 'drand' ? beacon.periodSeconds : 0);
};

/** Returns warnings about timing: relay limits, the wait for the beacon, and the queue of one address. */
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
      `each round waits ${beaconWait(spec)} before training; ` +
        `with timing.skewMs ${skewMs} the lag must be at least ${least} s`,
    ],
    [
      hasBeacon && roundSeconds < wait,
      `rounds of ${roundSeconds} s are shorter than the ${wait} s that they wait for the beacon`,
    ],
    [
      queueMs > graceMinMs,
      `timing.graceMinMs is ${graceMinMs}: on public relays the last of ${events} events from ` +
        `one address leaves after ${wholeSeconds(queueMs / 1000)} s, ` +
        'so a round that closes earlier is decided without it',
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

/** Returns what strangers can do in a run that anyone may join without stake; undefined for other runs. */
export function limitOfStrangers({
  stake,
  admission: { kind },
  founders: { length: count },
  foundersDecide,
}: RunSpec): string | undefined {
  if (stake.source !== 'none' || (kind !== 'open' && kind !== 'work')) return undefined;
  if (foundersDecide) {
    return count === 1
      ? 'anyone may join, so the founder decides: the run waits when it stops'
      : `anyone may join, so the ${count} founders decide: the run waits when they stop`;
  }
  return (
    'anyone may join and every key counts the same: one person may use many keys, and the run ' +
    'stalls for good when strangers who have half of the seats stop'
  );
}

function warningsOfTrust(
  spec: RunSpec,
  { seats, quorum, workers }: Pick<SecurityReport, 'seats' | 'quorum' | 'workers'>,
): readonly Warning[] {
  const { committee, stake, timing, aggregation } = spec;
  const hasStakes = stake.source !== 'none';
  const least = leastRows(aggregation);
  const { recoveryMs, recoveryFloorPermille } = timing;
  const limit = limitOfStrangers(spec);
  return [
    [limit !== undefined, limit ?? ''],
    [
      hasStakes,
      'a key that is not in the stake table takes no part: it sends nothing, and nothing ' +
        'waits for it',
    ],
    [
      seats > 1 && quorum === seats,
      `${quorum} of ${seats} founders decide (${committee.quorum}): ` +
        'a single absence stalls the run',
    ],
    [
      recoveryMs > 0 && recoveryFloorPermille <= 500,
      `timing.recoveryFloorPermille is ${recoveryFloorPermille}: ` +
        'half the roster or less may continue alone, so the run may fork',
    ],
    [
      workers < least,
      `${aggregation.rule} with ${aggregation.hostile} hostile needs contributions of ` +
        `${least} workers, ` +
        `but ${workers} are planned: with fewer the model does not change`,
    ],
  ];
}
