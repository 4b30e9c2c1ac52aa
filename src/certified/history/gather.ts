/**
 * Builds the evidence for a replay from verified events in any order. Also collects beacon values, without which later
 * committees are unknown.
 */
import { isHex32 } from '../../base/bytes.ts';
import { ChainError, NostrainError } from '../../base/errors.ts';
import { beaconValue } from '../../consensus/committee/beacon.ts';
import { layoutOfRun } from '../../model/from-settings.ts';
import { MOST_BODY_BYTES } from '../../network/attachments/bodies.ts';
import { heapChunks } from '../../network/chunks/payload.ts';
import type { SignedEvent } from '../../network/event.ts';
import { type EventCrypto, pureCrypto } from '../../network/event-crypto.ts';
import type { BeaconProof, BeaconSource } from '../../run/committee.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { featureSet } from '../../run/spec/features.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { stakeOf } from '../../run/stake/stake-snapshot.ts';
import { type Chain, openingOf } from '../decisions/chain.ts';
import {
  BYTES_PER_PARAMETER,
  type Gathered,
  type Hashing,
  signatureJudge,
} from '../decisions/evidence.ts';
import { beaconLack, type ReplayedRound, replay, withoutModel } from '../decisions/replay.ts';
import { isCommit, type ProtocolMessage, toProtocolMessage } from '../wire/certified-events.ts';
import { toServedRun } from '../wire/runs.ts';
import { readSnapshots } from '../wire/snapshots.ts';

/** Returns the run specs among these events, by run id. */
export function specsOf(events: Iterable<SignedEvent>): ReadonlyMap<Digest, RunSpec> {
  const specs = new Map<Digest, RunSpec>();
  for (const event of events) {
    const read = toServedRun(event);
    if (read.ok) specs.set(read.value.run, read.value.spec);
  }
  return specs;
}

export interface GatherOptions {
  /** Beacon values by the time of the preceding outcome, if the run has a beacon; may grow. */
  readonly beacons?: ReadonlyMap<number, Digest>;
  /** Stake tables from other sources than the events. */
  readonly tables?: ReadonlyMap<Digest, ReadonlyMap<WorkerId, bigint>>;
  readonly crypto?: EventCrypto | undefined;
  /** Cache of parsed events for repeated calls; grows. */
  readonly read?: Map<EventId, ProtocolMessage> | undefined;
  /** Parses a verified event; default `toProtocolMessage`. */
  readonly parse?: typeof toProtocolMessage | undefined;
}

/** Builds the evidence of one run from verified events; ignores events of other runs. */
export function gather(
  events: Iterable<SignedEvent>,
  { run, spec }: { readonly run: Digest; readonly spec: RunSpec },
  {
    beacons,
    tables: known,
    crypto = pureCrypto,
    read,
    parse = toProtocolMessage,
  }: GatherOptions = {},
): Gathered {
  const messages = new Map<EventId, ProtocolMessage>();
  const tables = new Map<Digest, ReadonlyMap<WorkerId, bigint>>(known);
  const features = featureSet(spec.features);
  const { payloadBytes } = spec.limits;
  const all = [...events];
  const stateBytes = BYTES_PER_PARAMETER * layoutOfRun(spec).size;
  const chunks = heapChunks(all, Math.max(payloadBytes, MOST_BODY_BYTES, stateBytes));
  for (const [id, table] of readSnapshots(all)) tables.set(id, stakeOf(table));
  for (const event of all) {
    const message = read?.get(event.id) ?? parse(event, run, crypto, chunks, features);
    if (message === undefined) continue;
    messages.set(message.id, message);
    read?.set(message.id, message);
  }
  const byId = [...messages.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const proposals = byId.filter((message) => message.type === 'proposal');
  const commits = byId.filter((message) => message.type === 'vote').filter(isCommit);
  const message = (id: EventId) => messages.get(id);
  return {
    messages,
    message,
    isSigned: signatureJudge(message, crypto),
    payload: (manifest) =>
      manifest.payload ?? (manifest.bytes > payloadBytes ? undefined : chunks(manifest)),
    proposals: indexBy(proposals, ({ digest }) => digest),
    proposalsAfter: indexBy(proposals, ({ parent }) => parent),
    commitsAfter: indexBy(commits, ({ parent }) => parent),
    bytesOf: chunks,
    stakes: (snapshot) => tables.get(snapshot),
    beacon: (time) => beacons?.get(time),
  };
}

function push<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

function indexBy<T>(
  items: readonly T[],
  keyOf: (item: T) => Digest,
): (key: Digest) => readonly T[] {
  const index = new Map<Digest, T[]>();
  for (const item of items) push(index, keyOf(item), item);
  return (key) => index.get(key) ?? [];
}

/** Proof of the beacon value after an outcome of this time. */
export interface BeaconRecord {
  readonly time: number;
  readonly proof: BeaconProof;
}

export interface BeaconLine extends BeaconRecord {
  readonly line: number;
}

export interface Beacons {
  /** Values by the time of the outcome. */
  readonly values: ReadonlyMap<number, Digest>;
  /** Records sorted by time, including those that no round needed. */
  readonly records: readonly BeaconRecord[];
  /** Lines with an invalid record. */
  readonly bad: readonly { readonly line: number; readonly reason: string }[];
  /** Number of block hashes that were not checked against a chain. */
  readonly believed: number;
}

interface BeaconSearch extends Hashing {
  /** Source for missing values, and to check records that do not prove themselves. */
  readonly source: BeaconSource | undefined;
  readonly signal: AbortSignal;
  onNotice(words: string): void;
}

export const formatBeacon = ({ time, proof }: BeaconRecord): string =>
  JSON.stringify({ beacon: { time, ...proof } });

/** Parses a beacon record; undefined for other JSON. */
export function readBeacon(json: unknown): BeaconRecord | undefined {
  const { beacon, ...others } = Object(json) as { readonly beacon?: unknown };
  if (typeof beacon !== 'object' || beacon === null) return undefined;
  if (Object.keys(others).length > 0) return undefined;
  const { time, signature, block, height } = beacon as Readonly<Record<string, unknown>>;
  if (typeof time !== 'number' || !Number.isSafeInteger(time)) return undefined;
  if (typeof signature === 'string') return { time, proof: { signature } };
  if (typeof block !== 'string' || !isHex32(block) || typeof height !== 'number') return undefined;
  return { time, proof: { block, height } };
}

/** Returns all beacon values that the run's events need, from the records or from the source. */
export async function beaconsOf(
  { run, spec }: { readonly run: Digest; readonly spec: RunSpec },
  events: Iterable<SignedEvent>,
  lines: readonly BeaconLine[],
  search: BeaconSearch,
): Promise<Beacons> {
  const values = new Map<number, Digest>();
  const records = new Map<number, BeaconRecord>();
  const bad: { line: number; reason: string }[] = [];
  let believed = 0;
  if (spec.beacon.kind === 'none') return { values, records: [], bad, believed };
  const sound = new Map<number, BeaconLine>();
  for (const each of lines) {
    const judged = beaconValue(spec.beacon, each.time, each.proof);
    if (judged.ok) {
      sound.set(each.time, each);
      records.set(each.time, { time: each.time, proof: each.proof });
    } else bad.push({ line: each.line, reason: judged.issue.message });
  }
  const gathered = gather(events, { run, spec }, { beacons: values, crypto: search.crypto });
  const start = openingOf(spec, search);
  await completeBeacons(start, gathered, values, async (time) => {
    const kept = sound.get(time);
    const isProved = kept !== undefined && 'signature' in kept.proof;
    const fetched = isProved ? undefined : await ask(time, search);
    const proof = fetched ?? kept?.proof;
    if (kept && fetched && 'block' in kept.proof && 'block' in fetched) {
      const { block } = fetched;
      if (block !== kept.proof.block)
        bad.push({ line: kept.line, reason: `the chain has block ${block}` });
    }
    if (proof === undefined) return undefined;
    if (kept && !isProved && fetched === undefined) believed += 1;
    records.set(time, { time, proof });
    const judged = beaconValue(spec.beacon, time, proof);
    return judged.ok ? judged.value : undefined;
  });
  const byTime = [...records.values()].sort((a, b) => a.time - b.time);
  return { values, records: byTime, bad, believed };
}

async function ask(
  time: number,
  { source, signal, onNotice }: BeaconSearch,
): Promise<BeaconProof | undefined> {
  try {
    return await source?.after(time, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof NostrainError)) throw error;
    onNotice(`no beacon: ${error.message}`);
    return undefined;
  }
}

/**
 * Returns the beacon value after an outcome of this time. Throws a ChainError if the source's answer does not fit the
 * spec.
 */
export async function valueAfter(
  { beacon }: RunSpec,
  source: BeaconSource,
  time: number,
  signal: AbortSignal,
): Promise<Digest> {
  const value = beaconValue(beacon, time, await source.after(time, signal));
  if (value.ok) return value.value;
  throw new ChainError('chain/answer', `${source.name}: ${value.issue.message}`);
}

/** Follows the run without its model and adds each beacon value it needs, until the next one is unknown. */
export async function completeBeacons(
  start: Chain,
  events: Gathered,
  beacons: Map<number, Digest>,
  valueAfter: (time: number) => Promise<Digest | undefined>,
): Promise<void> {
  for (let chain = start; ; ) {
    const playing = replay(withoutModel(chain), events);
    let last: ReplayedRound | undefined;
    let next = playing.next();
    for (; !next.done; next = playing.next()) last = next.value;
    const time = last && beaconLack(last);
    const value = time === undefined ? undefined : await valueAfter(time);
    if (time === undefined || value === undefined) return;
    beacons.set(time, value);
    chain = next.value.state;
  }
}
