/**
 * The evidence for judging an outcome: every event, payload, stake table and beacon value it refers to, verified and
 * parsed. A worker's store is bounded by rounds and bytes; from strangers it keeps only joins, leaves and fault proofs.
 */

import { FairStore, Recent } from '../../base/bounded.ts';
import type { Issue } from '../../base/errors.ts';
import { bytes32 } from '../../base/hash.ts';
import type { BodyOf } from '../../network/attachments/bodies.ts';
import { type SignedEvent, verifySignature } from '../../network/event.ts';
import { type EventCrypto, pureCrypto, type Sha256 } from '../../network/event-crypto.ts';
import type { Manifest } from '../../network/wire/manifests.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { JURY_ROUNDS } from '../../run/spec/feature-fields.ts';
import type { Commit, Proposal, Signed } from '../../run/vote.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { ContradictionProof } from '../wire/faults.ts';

/** Maximum cached signature checks. */
const MOST_JUDGED = 65_536;

export interface Evidence {
  message(id: EventId): ProtocolMessage | undefined;
  /** Returns the complete payload of a manifest, checked against its hash. */
  payload(manifest: Manifest): Uint8Array | undefined;
  /** Returns the proposals of an outcome. They carry its body and the view-change votes of their committee. */
  proposals(digest: Digest): readonly Signed<Proposal>[];
  isSigned(event: SignedEvent): boolean;
  stakes(snapshot: Digest): ReadonlyMap<WorkerId, bigint> | undefined;
  /** Returns the beacon value that follows an outcome of this time (Unix seconds); undefined if it is not known. */
  beacon(time: number): Digest | undefined;
}

/** Returns a signature check that caches its results. An event equal to a stored message was verified on arrival. */
export function signatureJudge(
  message: Evidence['message'],
  { schnorr }: EventCrypto,
  judged = new Recent<boolean>(MOST_JUDGED),
): Evidence['isSigned'] {
  return ({ id, pubkey, sig }) => {
    if (message(id)?.signature?.sig === sig) return true;
    const name = id + sig;
    const cached = judged.get(name);
    if (cached !== undefined) return cached;
    const isGood = verifySignature(sig, bytes32(id), pubkey, schnorr);
    judged.set(name, isGood);
    return isGood;
  };
}

/** Evidence that a judgment lacks; it waits until this arrives. */
export interface Missing {
  readonly what: 'event' | 'payload' | 'proposal' | 'snapshot' | 'beacon';
  readonly id: string;
}

/** Result of a judgment: a value, the reason it is invalid, or the evidence that is missing. */
export type Ruling<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly invalid: Issue }
  | { readonly ok: false; readonly missing: readonly Missing[] };

export const valid = <T>(value: T): { readonly ok: true; readonly value: T } => ({
  ok: true,
  value,
});

export const invalid = (
  code: string,
  at: string,
  message: string,
): { readonly ok: false; readonly invalid: Issue } => ({
  ok: false,
  invalid: { code, at, message },
});

export const lacking = (
  ...missing: readonly Missing[]
): { readonly ok: false; readonly missing: readonly Missing[] } => ({ ok: false, missing });

/** Hash and signature functions; default pure JavaScript. */
export interface Hashing {
  readonly sha256?: Sha256 | undefined;
  readonly crypto?: EventCrypto | undefined;
}

export interface EvidenceStore extends Evidence {
  /**
   * Stores a message. Returns false if it is known or not kept: unreadable events, and unrequested round messages of
   * strangers.
   */
  add(message: ProtocolMessage, wasRequested?: boolean): boolean;
  /** Sets whose messages are kept from now on; before the first call, everyone's are. */
  admit(members: readonly WorkerId[]): void;
  addPayload(manifest: Manifest, payload: Uint8Array): void;
  addStakes(snapshot: Digest, stakes: ReadonlyMap<WorkerId, bigint>): void;
  addBeacon(time: number, value: Digest): void;
  messages(): Iterable<ProtocolMessage>;
  /** Returns a contradiction proof against the author of these events, if any is stored. */
  proofOf(events: readonly [EventId, EventId]): Signed<ContradictionProof> | undefined;
  /** Drops messages and payloads of rounds before this one; joins, leaves and fault proofs stay. */
  forgetBefore(round: number): void;
}

/**
 * Limits in bytes for messages of members and requested messages: per key and in total. An outcome has at most 4 MiB.
 */
const MEMBER_BYTES = { perOwner: 32 << 20, inAll: 512 << 20 };
/** Limits in bytes for joins, leaves and fault proofs of other keys. */
const STRANGER_BYTES = { perOwner: 16 << 10, inAll: 32 << 20 };
/** Limits for payloads that arrived in chunks: payloads per key (two for each stored round), and bytes in total. */
const PAYLOADS_PER_KEY = 8;
const PAYLOAD_BYTES = 4 * 2 ** 30;
/** Maximum stake tables: those of the previous, this and the next round. One may have 100,000 rows. */
const MOST_TABLES = 16;
const MOST_BEACONS = 16;

export interface PayloadLimits {
  readonly payloadBytes?: number;
  readonly inAll?: number;
}

/** Returns an empty store of evidence, with bounded bytes of payloads per key and in all. */
export function createEvidenceStore(
  crypto: EventCrypto = pureCrypto,
  { payloadBytes = PAYLOAD_BYTES / PAYLOADS_PER_KEY, inAll = PAYLOAD_BYTES }: PayloadLimits = {},
): EvidenceStore {
  const ofMembers = new FairStore<ProtocolMessage>(MEMBER_BYTES);
  const ofStrangers = new FairStore<ProtocolMessage>(STRANGER_BYTES);
  let members: ReadonlySet<WorkerId> | undefined;
  const messageOf = (id: EventId) => ofMembers.get(id) ?? ofStrangers.get(id);
  function* messages(): Iterable<ProtocolMessage> {
    for (const [, { value }] of ofMembers.entries()) yield value;
    for (const [, { value }] of ofStrangers.entries()) yield value;
  }
  const isMember = (key: WorkerId) => members?.has(key) !== false;
  function storeFor(message: ProtocolMessage, wasRequested: boolean) {
    if (wasRequested || (isMember(message.key) && message.type !== 'unreadable')) return ofMembers;
    const isOfUse =
      message.type === 'fault'
        ? isMember(message.culprit)
        : message.type === 'join' || message.type === 'leave';
    return isOfUse ? ofStrangers : undefined;
  }
  const payloads = new FairStore<{ readonly round: number; readonly bytes: Uint8Array }>({
    perOwner: PAYLOADS_PER_KEY * payloadBytes,
    inAll,
  });
  const tables = new Recent<ReadonlyMap<WorkerId, bigint>>(MOST_TABLES);
  const beacons = new Recent<Digest>(MOST_BEACONS);
  const judged = new Recent<boolean>(MOST_JUDGED);
  return {
    message: messageOf,
    isSigned: signatureJudge(messageOf, crypto, judged),
    payload: (manifest) => manifest.payload ?? payloads.get(manifest.root)?.bytes,
    proposals: (digest) =>
      [...messages()].filter(
        (message): message is Signed<Proposal> =>
          message.type === 'proposal' && message.digest === digest,
      ),
    stakes: (snapshot) => tables.get(snapshot),
    beacon: (time) => beacons.get(`${time}`),
    add(message, wasRequested = false) {
      if (messageOf(message.id)) return false;
      const stored = { value: message, owner: message.key, bytes: bytesOf(message) };
      return storeFor(message, wasRequested)?.set(message.id, stored) ?? false;
    },
    admit(keys) {
      members = new Set(keys);
      for (const message of messages()) {
        if (storeFor(message, false) !== ofMembers || !ofStrangers.has(message.id)) continue;
        ofStrangers.delete(message.id);
        ofMembers.set(message.id, { value: message, owner: message.key, bytes: bytesOf(message) });
      }
    },
    addPayload({ root, round, worker }, bytes) {
      payloads.set(root, { value: { round, bytes }, owner: worker, bytes: bytes.length });
    },
    addStakes: (snapshot, stakes) => tables.set(snapshot, stakes),
    addBeacon: (time, value) => beacons.set(`${time}`, value),
    messages,
    proofOf([id]) {
      const author = messageOf(id)?.key;
      for (const message of messages()) {
        if (message.type !== 'fault' || message.kind === 'failed-check') continue;
        if (message.culprit === author) return message;
      }
      return undefined;
    },
    forgetBefore(round) {
      judged.age();
      for (const message of messages()) {
        if ((roundOf(message) ?? round) < round) ofMembers.delete(message.id);
      }
      for (const [root, { value }] of payloads.entries()) {
        if (value.round < round) payloads.delete(root);
      }
    },
  };
}

/** Returns the round that a message belongs to; undefined for messages that outlive rounds. */
function roundOf(message: ProtocolMessage): number | undefined {
  if (message.type === 'manifest') return message.manifest.round;
  if (message.type === 'unreadable') return -1;
  if (message.type === 'verdict') return message.checked + JURY_ROUNDS;
  return 'round' in message ? message.round : undefined;
}

function bytesOf(message: ProtocolMessage): number {
  if (message.type === 'manifest') return 2048 + (message.manifest.payload?.length ?? 0);
  if (message.type === 'proposal') return 2048 + 4 * JSON.stringify(message.outcome).length;
  return 512 + JSON.stringify(message).length;
}

/** A complete, immutable set of evidence, indexed for a replay. */
export interface Gathered extends Evidence {
  readonly messages: ReadonlyMap<EventId, ProtocolMessage>;
  proposalsAfter(parent: Digest): readonly Signed<Proposal>[];
  commitsAfter(parent: Digest): readonly Signed<Commit>[];
  /**
   * Returns the bytes under a Merkle root if all of their chunks are available. A model root names the bytes of a
   * state.
   */
  bytesOf: BodyOf;
}

/** Bytes of a state per parameter: parameter and momentum, both f32. */
export const BYTES_PER_PARAMETER = 8;
