/**
 * Decides who may join a certified run: founders, listed keys, or keys whose join carries proof of work, stake or
 * trust. The decision depends only on the join and the stake table, so every worker decides alike.
 */

import type { Clock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { canonicalJson, type JsonObject } from '../../base/canonical-json.ts';
import { bytes32, taggedHash } from '../../base/hash.ts';
import type { Stakes } from '../../consensus/committee/committee.ts';
import { eventId, inOrder, parseEvent, type SignedEvent } from '../../network/event.ts';
import type { Filter } from '../../network/transport/frames.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { ListedJoin } from '../../run/listed.ts';
import { type Delegation, joinProof, MOST_PROOF } from '../../run/spec/feature-fields.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { rebuildDelegation } from '../wire/messages.ts';

export type JoinRequest = Pick<ListedJoin, 'key' | 'evidence' | 'features'>;

export type AdmissionFault =
  | 'join-without-delegation'
  | 'join-without-work'
  | 'join-without-stake'
  | 'join-without-trust';

type Admission = RunSpec['admission'];
type Trust = Extract<Admission, { readonly kind: 'trust' }>;

/** Decimal nonce without leading zeros, as the search counts it from 0. */
const NONCE = /^(0|[1-9][0-9]{0,15})$/;

/**
 * Returns why a join is refused; undefined if it is admitted, or if `admission` is by list (the roster rules check
 * that).
 */
export function refuseAdmission(
  spec: Pick<RunSpec, 'admission' | 'founders'>,
  run: Digest,
  stakes: Stakes,
  asking: JoinRequest,
  isSigned: (event: SignedEvent) => boolean,
): AdmissionFault | undefined {
  const unfit = refuseName(spec, run, stakes, asking, isSigned);
  if (unfit !== undefined || !asking.features?.sessions?.by) return unfit;
  return isDelegated(run, asking, isSigned) ? undefined : 'join-without-delegation';
}

/** Reports whether a join carries a delegation to its key that its principal signed. */
export function isDelegated(
  run: Digest,
  { key, features }: Pick<JoinRequest, 'key' | 'features'>,
  isSigned: (event: SignedEvent) => boolean,
): boolean {
  const by = features?.sessions?.by ?? null;
  return by !== null && by.key !== key && isSigned(rebuildDelegation({ run, session: key }, by));
}

/**
 * Checks the principal if the key is a session key, without its delegation. Proof of work always belongs to the joining
 * key itself.
 */
function refuseName(
  { admission, founders }: Pick<RunSpec, 'admission' | 'founders'>,
  run: Digest,
  stakes: Stakes,
  { key, evidence, features }: JoinRequest,
  isSigned: (event: SignedEvent) => boolean,
): AdmissionFault | undefined {
  const name = features?.sessions?.by?.key ?? key;
  const isFounder = founders.includes(name);
  if (admission.kind === 'trust') {
    const { proof = [] } = features?.trust ?? {};
    const isGood = isFounder ? proof.length === 0 : isTrusted(admission, name, proof, isSigned);
    return isGood ? undefined : 'join-without-trust';
  }
  if (admission.kind === 'work' && !isFounder) {
    const isDone = NONCE.test(evidence) && workOf(run, key, evidence) >= admission.bits;
    return isDone ? undefined : 'join-without-work';
  }
  if (admission.kind !== 'stake' || isFounder) return undefined;
  return (stakes?.get(name) ?? -1n) >= BigInt(admission.least) ? undefined : 'join-without-stake';
}

function workOf(run: Digest, key: WorkerId, nonce: string): number {
  return zeroBits(taggedHash('nostrain/join-work/1', bytes32(run), bytes32(key), utf8(nonce)));
}

function zeroBits(hash: Uint8Array): number {
  const first = hash.findIndex((byte) => byte !== 0);
  return first < 0 ? 8 * hash.length : 8 * first + Math.clz32(hash[first]!) - 24;
}

/** Nonces tried before the search yields to other tasks. */
const TURN_TRIES = 2000;

const FOLLOWS = 3;
/** Kind of trusted assertions about a key (NIP-85). */
export const ASSERTION = 30_382;

/** Caches the verdict on a proof: every proposal lists the same joins again. */
const judged = new WeakMap<readonly JsonObject[], { readonly of: string; readonly is: boolean }>();

function isTrusted(
  trust: Trust,
  key: WorkerId,
  proof: readonly JsonObject[],
  isSigned: (event: SignedEvent) => boolean,
): boolean {
  const of = `${key} ${JSON.stringify(trust)}`;
  const cached = judged.get(proof);
  if (cached?.of === of) return cached.is;
  const events = proof.map(parseEvent).flatMap((read) => (read.ok ? [read.value] : []));
  // cheapest check first: content, then ids, then signatures
  const is =
    events.length === proof.length &&
    leadsTo(trust, key, events) &&
    events.every((event) => eventId(event.pubkey, event) === event.id && isSigned(event));
  judged.set(proof, { of, is });
  return is;
}

/**
 * Reports whether the events form a chain from an anchor of the spec to `key`: each names the author of the next one.
 */
function leadsTo(trust: Trust, key: WorkerId, events: readonly SignedEvent[]): boolean {
  const { anchors, by, hops, rank, since } = trust;
  const isRecent = events.every(({ created_at }) => created_at >= since);
  if (!isRecent || events.length < 1 || events.length > hops) return false;
  if (!anchors.includes(events[0]!.pubkey)) return false;
  if (by === 'assertions') return asserts(events[0]!, key, rank);
  return events.every((event, i) => follows(event, events[i + 1]?.pubkey ?? key));
}

const follows = ({ kind, tags }: SignedEvent, key: WorkerId): boolean =>
  kind === FOLLOWS && tags.some(([name, value]) => name === 'p' && value === key);

const RANK = /^(0|[1-9][0-9]?|100)$/;

/**
 * Reports whether an assertion gives `key` at least this rank. It must have exactly one `d` tag; only its first `rank`
 * tag counts.
 */
function asserts({ kind, tags }: SignedEvent, key: WorkerId, rank: number): boolean {
  const subjects = tags.filter(([name]) => name === 'd').map(([, value]) => value);
  const rankText = tags.find(([name]) => name === 'rank')?.[1] ?? '';
  const isOfKey = kind === ASSERTION && subjects.length === 1 && subjects[0] === key;
  return isOfKey && RANK.test(rankText) && Number(rankText) >= rank;
}

export interface JoinCredentials extends Pick<JoinRequest, 'evidence' | 'features'> {
  /** The outcome that the join must follow, if its evidence is bound to one. */
  readonly after?: Digest;
}

/** Outcomes that a join may name. */
export interface JoinPoint {
  /** The last outcome. */
  readonly parent: Digest;
  readonly recent: readonly Digest[];
}

/**
 * Returns what a join carries; undefined while the worker cannot be admitted, or while its machine makes evidence for
 * this point of the run.
 */
export type FindCredentials = (now?: JoinPoint) => JoinCredentials | undefined;

interface Means {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Returns verified events from relays; called only if the run admits by trust. */
  find(filters: readonly Filter[]): Promise<readonly SignedEvent[]>;
}

/**
 * Returns the evidence and features that a join of this key must carry; empty if the run requires none or no proof is
 * found.
 */
export async function credentialsFor(
  spec: Pick<RunSpec, 'admission' | 'founders' | 'sessions'>,
  run: Digest,
  key: WorkerId,
  means: Means,
  by: Delegation | null = null,
): Promise<JoinCredentials> {
  const credentials = await keyCredentials(spec, run, { key, name: by?.key ?? key }, means);
  return spec.sessions
    ? { ...credentials, features: { ...credentials.features, sessions: { by } } }
    : credentials;
}

async function keyCredentials(
  { admission, founders }: Pick<RunSpec, 'admission' | 'founders'>,
  run: Digest,
  { key, name }: { readonly key: WorkerId; readonly name: WorkerId },
  means: Means,
): Promise<JoinCredentials> {
  const isFounder = founders.includes(name);
  if (admission.kind === 'trust') {
    const proof = isFounder ? [] : await findTrust(admission, name, means);
    return { evidence: '', features: { trust: { proof } } };
  }
  if (admission.kind !== 'work' || isFounder) return { evidence: '' };
  for (let nonce = 0; ; nonce++) {
    if (workOf(run, key, String(nonce)) >= admission.bits) return { evidence: String(nonce) };
    if (nonce % TURN_TRIES === TURN_TRIES - 1) await means.clock.sleep(0, means.signal);
  }
}

/** Maximum follow lists examined per hop between an anchor and this key. */
const MOST_LISTS = 200;

/**
 * Returns the shortest proof of trust that relays have, made of the smallest events; empty if none fits in an event.
 */
async function findTrust(
  trust: Trust,
  key: WorkerId,
  { find }: Means,
): Promise<readonly JsonObject[]> {
  const { anchors: authors, by, hops } = trust;
  if (by === 'assertions') {
    const assertions = await find([{ kinds: [ASSERTION], authors: [...authors], '#d': [key] }]);
    return fitting(trust, key, [assertions]);
  }
  // search backwards from the key: each hop asks who follows the previous authors
  let ways: readonly (readonly SignedEvent[])[] = [[]];
  for (let hop = 0; hop < hops; hop++) {
    const heads = [...new Set(ways.map(([first]) => first?.pubkey ?? key))].slice(0, MOST_LISTS);
    const near = await find([{ kinds: [FOLLOWS], authors: [...authors], '#p': heads }]);
    const last = waysOver(near, ways, key);
    const proof = fitting(trust, key, last);
    if (proof.length > 0 || hop + 1 === hops) return proof;
    const lists = await find([{ kinds: [FOLLOWS], '#p': heads, limit: MOST_LISTS }]);
    ways = waysOver(lists, ways, key);
  }
  return [];
}

const waysOver = (
  lists: readonly SignedEvent[],
  ways: readonly (readonly SignedEvent[])[],
  key: WorkerId,
): readonly (readonly SignedEvent[])[] =>
  lists.flatMap((list) =>
    ways
      .filter(([first]) => follows(list, first?.pubkey ?? key))
      .map((way) => [list, ...way])
      .slice(0, 1),
  );

function fitting(
  trust: Trust,
  key: WorkerId,
  ways: readonly (readonly SignedEvent[])[],
): readonly JsonObject[] {
  const each = trust.by === 'assertions' ? ways.flat().map((event) => [event]) : ways;
  const good = each
    .filter((way) => leadsTo(trust, key, way))
    .map((way) => way.map(inOrder))
    .map((proof) => ({ proof, length: canonicalJson(proof).length }))
    .filter(({ proof, length }) => length <= MOST_PROOF && joinProof.read(proof) !== undefined)
    .sort((a, b) => a.length - b.length);
  return good[0]?.proof ?? [];
}
