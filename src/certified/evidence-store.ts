/**
 * Evidence of a certified run in memory, for whoever judges outcomes: protocol messages, payloads, stake tables, beacon values. Bounded by
 * forgetting old rounds, and by bytes: of strangers only joins and leaves are kept, and whatever was asked for.
 */
import { FairStore } from '../base/fair-store.ts';
import { type EventCrypto, pureCrypto } from '../network/event-crypto.ts';
import type { Manifest } from '../network/wire/manifests.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import type { Proposal, Signed } from '../run/vote.ts';
import {
  type Evidence,
  type FaultProof,
  type ProtocolMessage,
  signatureJudge,
} from './evidence.ts';

export interface EvidenceStore extends Evidence {
  /** False when it was here already, or is not kept: what says nothing, and what strangers say of rounds, unless it was asked for. */
  add(noun: ProtocolMessage, isAsked?: boolean): boolean;
  /** Whose messages are kept from now on; everybody's before. */
  admit(members: readonly WorkerId[]): void;
  addPayload(manifest: Manifest, payload: Uint8Array): void;
  addStakes(snapshot: Digest, stakes: ReadonlyMap<WorkerId, bigint>): void;
  addBeacon(time: number, value: Digest): void;
  nouns(): Iterable<ProtocolMessage>;
  /** A proof, whoever made it, against the author of these events: one is enough. */
  proofOf(events: readonly [EventId, EventId]): Signed<FaultProof> | undefined;
  /** Lets go of what belongs to rounds before this one; joins, leaves and faults stay. */
  forgetBefore(round: number): void;
}

/** Messages of members, and asked for: bytes of one key, and of all. An outcome has 4 MiB at most. */
const MEMBER_BYTES = { perOwner: 32 << 20, inAll: 512 << 20 };
/** Joins, leaves and proofs against members of everybody else. */
const STRANGER_BYTES = { perOwner: 16 << 10, inAll: 32 << 20 };

/** An empty store. */
export function createEvidenceStore(crypto: EventCrypto = pureCrypto): EvidenceStore {
  const ofMembers = new FairStore<ProtocolMessage>(MEMBER_BYTES);
  const ofStrangers = new FairStore<ProtocolMessage>(STRANGER_BYTES);
  let members: ReadonlySet<WorkerId> | undefined;
  const nounOf = (id: EventId) => ofMembers.get(id) ?? ofStrangers.get(id);
  function* nouns(): Iterable<ProtocolMessage> {
    for (const [, { value }] of ofMembers.entries()) yield value;
    for (const [, { value }] of ofStrangers.entries()) yield value;
  }
  const isMember = (key: WorkerId) => members?.has(key) !== false;
  /** Where it is kept, if it is. */
  function placeOf(noun: ProtocolMessage, isAsked: boolean) {
    if (isAsked || (isMember(noun.key) && noun.type !== 'unreadable')) return ofMembers;
    const isOfUse =
      noun.type === 'fault'
        ? isMember(noun.culprit)
        : noun.type === 'join' || noun.type === 'leave';
    return isOfUse ? ofStrangers : undefined;
  }
  const payloads = new Map<Digest, { readonly round: number; readonly bytes: Uint8Array }>();
  const tables = new Map<Digest, ReadonlyMap<WorkerId, bigint>>();
  const beacons = new Map<number, Digest>();
  return {
    noun: nounOf,
    isSigned: signatureJudge(nounOf, crypto),
    payload: (manifest) => manifest.payload ?? payloads.get(manifest.root)?.bytes,
    proposals: (digest) =>
      [...nouns()].filter(
        (noun): noun is Signed<Proposal> => noun.type === 'proposal' && noun.digest === digest,
      ),
    stakes: (snapshot) => tables.get(snapshot),
    beacon: (time) => beacons.get(time),
    add(noun, isAsked = false) {
      if (nounOf(noun.id)) return false;
      const stored = { value: noun, owner: noun.key, bytes: bytesOf(noun) };
      return placeOf(noun, isAsked)?.set(noun.id, stored) ?? false;
    },
    admit(keys) {
      members = new Set(keys);
      for (const noun of nouns()) {
        if (placeOf(noun, false) !== ofMembers || !ofStrangers.has(noun.id)) continue;
        ofStrangers.delete(noun.id);
        ofMembers.set(noun.id, { value: noun, owner: noun.key, bytes: bytesOf(noun) });
      }
    },
    addPayload: ({ root, round }, bytes) => void payloads.set(root, { round, bytes }),
    addStakes: (snapshot, stakes) => void tables.set(snapshot, stakes),
    addBeacon: (time, value) => void beacons.set(time, value),
    nouns,
    proofOf([id]) {
      const author = nounOf(id)?.key;
      for (const noun of nouns()) {
        if (noun.type === 'fault' && noun.culprit === author) return noun;
      }
      return undefined;
    },
    forgetBefore(round) {
      for (const noun of nouns()) {
        if ((roundOf(noun) ?? round) < round) ofMembers.delete(noun.id);
      }
      for (const [root, payload] of payloads) if (payload.round < round) payloads.delete(root);
    },
  };
}

/** The round a message belongs to; undefined for what outlives rounds. */
function roundOf(noun: ProtocolMessage): number | undefined {
  if (noun.type === 'manifest') return noun.manifest.round;
  if (noun.type === 'unreadable') return -1;
  return 'round' in noun ? noun.round : undefined;
}

/** What a message takes in memory, about. */
function bytesOf(noun: ProtocolMessage): number {
  if (noun.type === 'manifest') return 2048 + (noun.manifest.payload?.length ?? 0);
  if (noun.type === 'proposal') return 2048 + 4 * JSON.stringify(noun.outcome).length;
  return 512 + JSON.stringify(noun).length;
}
