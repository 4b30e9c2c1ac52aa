/** Reads verified events of a run, in any order, into evidence for a replay: protocol messages, payloads, stake tables. */

import { judgeFault } from '../consensus/round/faults.ts';
import { layoutOf } from '../model/from-settings.ts';
import { type BodyOf, MOST_BODY_BYTES, noBodies } from '../network/attachments/bodies.ts';
import { heapChunks } from '../network/attachments/chunk-heap.ts';
import type { SignedEvent } from '../network/event.ts';
import { type EventCrypto, pureCrypto } from '../network/event-crypto.ts';
import { toCertifiedEvent } from '../network/wire/certified-events.ts';
import { toServedRun } from '../network/wire/runs.ts';
import { readSnapshots } from '../network/wire/snapshots.ts';
import { type FeatureSet, featureSet, noFeatures } from '../run/features.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { stakeOf } from '../run/stake-snapshot.ts';
import type { Commit, Proposal, Signed } from '../run/vote.ts';
import { type Evidence, isCommit, type ProtocolMessage, signatureJudge } from './evidence.ts';

/** Evidence that is whole: nothing is added any more. */
export interface Gathered extends Evidence {
  readonly nouns: ReadonlyMap<EventId, ProtocolMessage>;
  /** Proposals that follow an outcome. */
  proposalsAfter(parent: Digest): readonly Signed<Proposal>[];
  /** Commits in the round that follows an outcome. */
  commitsAfter(parent: Digest): readonly Signed<Commit>[];
  /** The bytes of a root, where all of their chunks are at hand: a model root names those of the state. */
  bytesOf: BodyOf;
}

/** Specs by run id, whoever served them. */
export function specsOf(events: Iterable<SignedEvent>): ReadonlyMap<Digest, RunSpec> {
  const specs = new Map<Digest, RunSpec>();
  for (const event of events) {
    const read = toServedRun(event);
    if (read.ok) specs.set(read.value.run, read.value.spec);
  }
  return specs;
}

export interface GatherOptions {
  /** Values of the beacon by the times of the outcomes they come after, where the run has one; it may grow. */
  readonly beacons?: ReadonlyMap<number, Digest>;
  /** Tables of stake that are known already, beside those among the events. */
  readonly tables?: ReadonlyMap<Digest, ReadonlyMap<WorkerId, bigint>>;
  readonly crypto?: EventCrypto | undefined;
}

/** Of a state: parameter and momentum in f32. */
export const BYTES_PER_PARAMETER = 8;

/** Reads verified events of one run. Others are left out. */
export function gather(
  events: Iterable<SignedEvent>,
  { run, spec }: { readonly run: Digest; readonly spec: RunSpec },
  { beacons, tables: known, crypto = pureCrypto }: GatherOptions = {},
): Gathered {
  const nouns = new Map<EventId, ProtocolMessage>();
  const tables = new Map<Digest, ReadonlyMap<WorkerId, bigint>>(known);
  const features = featureSet(spec.features);
  const { payloadBytes } = spec.limits;
  const all = [...events];
  const stateBytes = BYTES_PER_PARAMETER * layoutOf(spec.training).size;
  const chunks = heapChunks(all, Math.max(payloadBytes, MOST_BODY_BYTES, stateBytes));
  for (const [id, table] of readSnapshots(all)) tables.set(id, stakeOf(table));
  for (const event of all) {
    const noun = toProtocolMessage(event, run, crypto, chunks, features);
    if (noun !== undefined) nouns.set(noun.id, noun);
  }
  const byId = [...nouns.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  const proposals = byId.filter((noun) => noun.type === 'proposal');
  const commits = byId.filter((noun) => noun.type === 'vote').filter(isCommit);
  const noun = (id: EventId) => nouns.get(id);
  return {
    nouns,
    noun,
    isSigned: signatureJudge(noun, crypto),
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

/** What a verified event says in this run; undefined for what is not of the run, and while its body is not here. */
export function toProtocolMessage(
  event: SignedEvent,
  run: Digest,
  crypto: EventCrypto = pureCrypto,
  bodyOf: BodyOf = noBodies,
  features: FeatureSet = noFeatures,
): ProtocolMessage | undefined {
  const said = toCertifiedEvent(event, run, crypto, bodyOf, features);
  if (said?.type !== 'accusation') return said;
  const fault = judgeFault(...said.statements);
  const signed = { id: said.id, key: said.key };
  if (fault === undefined) return { ...signed, type: 'unreadable', reason: 'malformed' };
  const { kind, events, key: culprit } = fault;
  return { ...signed, type: 'fault', run, kind, culprit, events };
}
