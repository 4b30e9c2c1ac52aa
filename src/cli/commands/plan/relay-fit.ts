/** Decides whether a relay can carry a run, from its information document or from measurements. */

import { unlessAborted } from '../../../base/async.ts';
import { withoutSecrets } from '../../../network/transport/relay-urls.ts';
import {
  brokenLimit,
  type FloorInput,
  floorSeconds,
  PUBLIC_BUDGET,
  type RoundCost,
  type StatedLimits,
  wholeSeconds,
} from '../../../network/wire/cost.ts';
import { fetchRelayInfo } from '../../../node/net/relays.ts';
import type { CheckedRelay } from '../../../probe/index.ts';
import { workerAbilities, workLimit } from '../../../probe/report.ts';
import { timeToOpen } from '../relays.ts';

/** `tried`: measured by `relays check`. `stated`: in its NIP-11 document. `assumed`: typical of public relays. */
export type Basis = 'tried' | 'stated' | 'assumed';

export interface RelayFacts {
  readonly url: string;
  /** Why no run can use it; `next` says what to do. */
  readonly problem?: string;
  readonly next?: string;
  readonly limits: StatedLimits;
  /** Maximum event size in bytes; Infinity if only the stated limits apply. */
  readonly mostBytes: number;
  readonly takesChunks: boolean;
  readonly sizeBasis: Basis;
  /** Events per minute from one IP that are known to be accepted. */
  readonly perMinute: number;
  readonly rateWords: string;
  readonly rateBasis: Basis;
}

export interface RelayFit
  extends Pick<RelayFacts, 'url' | 'sizeBasis' | 'perMinute' | 'rateBasis'> {
  readonly manifests: boolean;
  /** Undefined if the payload needs no chunks. */
  readonly chunks?: boolean;
  /** Shortest round that it can keep up with, in seconds; Infinity if none is long enough. */
  readonly floorSeconds: number;
  readonly carries: boolean;
  readonly why: readonly string[];
}

/** Event size that most relays accept if they state no limit. */
const USUAL_BYTES = 65_536;
/** Software name of our relay, which limits no rate. With --strict it sends the name of the relay it imitates. */
const NOSTRAIN_SOFTWARE = 'nostrain-relay';

const UNMETERED = { perMinute: Number.POSITIVE_INFINITY, rateWords: 'accepts any rate' } as const;

/** Reads the NIP-11 document of a relay and assumes the usual values for the rest. */
export async function askRelay(url: string, signal: AbortSignal): Promise<RelayFacts> {
  const info = await fetchRelayInfo(url, { signal });
  const assumed: RelayFacts = {
    url: withoutSecrets(url),
    limits: {},
    mostBytes: USUAL_BYTES,
    takesChunks: true,
    sizeBasis: 'assumed',
    perMinute: PUBLIC_BUDGET.perMinute,
    rateWords: `assumed to accept ${PUBLIC_BUDGET.perMinute} events per minute, like public relays`,
    rateBasis: 'assumed',
  };
  if (!info.ok) {
    const { code, message } = info.issue;
    // many relays do not answer plain HTTP, so try a WebSocket before reporting the relay as unreachable
    const isThere = code !== 'unreachable' || (await opens(url, signal));
    return isThere ? assumed : { ...assumed, problem: `cannot be reached: ${message}` };
  }
  const { limitation, software } = info.value;
  const { maxMessageLength, maxContentLength, authRequired, paymentRequired } = limitation;
  const isStated = maxMessageLength !== undefined || maxContentLength !== undefined;
  const bits = limitation.minPowDifficulty ?? 0;
  const problem = paymentRequired
    ? 'requires payment'
    : authRequired && !workerAbilities.authenticates
      ? 'requires authentication, which nostrain does not do'
      : workLimit(bits) === 0
        ? `requires ${bits} bits of work, more than nostrain does`
        : undefined;
  const isNostrainRelay = software === NOSTRAIN_SOFTWARE;
  return {
    ...assumed,
    limits: limitation,
    mostBytes: Math.min(workLimit(bits), isStated ? Number.POSITIVE_INFINITY : USUAL_BYTES),
    sizeBasis: isStated ? 'stated' : 'assumed',
    ...(isNostrainRelay ? { ...UNMETERED, rateBasis: 'stated' } : {}),
    ...(problem === undefined ? {} : { problem }),
  };
}

const OPEN_MS = 5000;

/** Reports whether a WebSocket to the relay opens. */
const opens = async (url: string, signal: AbortSignal): Promise<boolean> =>
  typeof (await unlessAborted(timeToOpen(url, OPEN_MS), signal)) === 'number';

/** Converts the measurements of `relays check`. */
export function factsOf({ report, verdict }: CheckedRelay): RelayFacts {
  const { url, stated, size, rate, work } = report;
  const { carries, why, next } = verdict;
  const isUsable = carries === 'chunks' || carries === 'manifests';
  return {
    url,
    limits: stated?.limitation ?? {},
    mostBytes: Math.min(
      workLimit(work?.bits ?? 0),
      size.refusedBytes === undefined ? Number.POSITIVE_INFINITY : size.keptBytes,
    ),
    takesChunks: carries === 'chunks',
    sizeBasis: 'tried',
    ...(stated?.software === NOSTRAIN_SOFTWARE && rate.throttled === undefined
      ? UNMETERED
      : rateOf(rate)),
    rateBasis: 'tried',
    ...(isUsable ? {} : { problem: why.join('; ') }),
    ...(isUsable || next === undefined ? {} : { next }),
  };
}

/** The event rate after the first refusal; without a refusal, the number of events the relay accepted. */
function rateOf({
  accepted,
  throttled,
  againAfterSeconds,
}: CheckedRelay['report']['rate']): Pick<RelayFacts, 'perMinute' | 'rateWords'> {
  if (throttled === undefined) {
    return { perMinute: accepted, rateWords: `accepted ${accepted} events; more was not tested` };
  }
  const first = `accepted ${accepted} events at once`;
  return againAfterSeconds === undefined
    ? {
        perMinute: Math.min(accepted, PUBLIC_BUDGET.perMinute),
        rateWords: `${first} and no more within the time limit`,
      }
    : {
        // either a token bucket or a counter that resets: assume the better of both, up to the usual public budget
        perMinute: Math.max(
          60 / againAfterSeconds,
          Math.min((60 * accepted) / againAfterSeconds, PUBLIC_BUDGET.perMinute),
        ),
        rateWords: `${first}, the next after ${againAfterSeconds.toFixed(0)} s`,
      };
}

export interface Needs extends Omit<FloorInput, 'perMinute' | 'fixedEvents'> {
  readonly cost: RoundCost;
  readonly roundSeconds: number;
}

/** Reports whether the relay carries such rounds, and if not, why. */
export function judgeFit(facts: RelayFacts, { cost, roundSeconds, ...rateNeeds }: Needs): RelayFit {
  const { url, problem, perMinute, sizeBasis, rateBasis } = facts;
  const manifests = problem === undefined && takes(facts, cost.commit.bytes);
  const needsChunks = cost.chunks.events > 0;
  const chunks = facts.takesChunks && manifests && takes(facts, cost.largestChunkBytes);
  const floor = floorSeconds({ ...rateNeeds, perMinute, fixedEvents: cost.fixedEvents });
  const why = [
    ...(problem === undefined ? [] : [problem]),
    ...(problem === undefined && !manifests ? [wordSize(cost.commit.bytes, facts)] : []),
    ...(manifests && needsChunks && !chunks ? ['carries no chunks'] : []),
    ...(problem === undefined && floor > roundSeconds
      ? [describeRate(floor, roundSeconds, facts)]
      : []),
  ];
  return {
    url,
    manifests,
    sizeBasis,
    rateBasis,
    perMinute,
    floorSeconds: floor,
    why,
    ...(needsChunks ? { chunks } : {}),
    carries: why.length === 0,
  };
}

const brokenBy = (eventBytes: number, { limits }: RelayFacts): number | undefined =>
  brokenLimit({ payloadBytes: 0, eventBytes }, limits);

const takes = (facts: RelayFacts, eventBytes: number): boolean =>
  eventBytes <= facts.mostBytes && brokenBy(eventBytes, facts) === undefined;

const wordSize = (eventBytes: number, facts: RelayFacts): string => {
  const most = Math.min(facts.mostBytes, brokenBy(eventBytes, facts) ?? facts.mostBytes);
  return `accepts ${most} bytes (${facts.sizeBasis}), but an event of this run has ${eventBytes}`;
};

const describeRate = (floor: number, seconds: number, { rateWords }: RelayFacts): string =>
  Number.isFinite(floor)
    ? `${rateWords}: needs rounds of ${wholeSeconds(floor)} s, not ${seconds} s`
    : `${rateWords}: heartbeats alone use up this rate`;
