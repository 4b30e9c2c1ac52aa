/**
 * Evidence of a certified run in memory, for whoever judges outcomes: protocol messages, payloads, stake tables, beacon values. Bounded by
 * forgetting old rounds.
 */
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
  /** False when it was here already. */
  add(noun: ProtocolMessage): boolean;
  addPayload(manifest: Manifest, payload: Uint8Array): void;
  addStakes(snapshot: Digest, stakes: ReadonlyMap<WorkerId, bigint>): void;
  addBeacon(time: number, value: Digest): void;
  nouns(): Iterable<ProtocolMessage>;
  /** A proof, whoever made it, against the author of these events: one is enough. */
  proofOf(events: readonly [EventId, EventId]): Signed<FaultProof> | undefined;
  /** Lets go of what belongs to rounds before this one; joins, leaves and faults stay. */
  forgetBefore(round: number): void;
}

/** An empty store. */
export function createEvidenceStore(crypto: EventCrypto = pureCrypto): EvidenceStore {
  const nouns = new Map<EventId, ProtocolMessage>();
  const nounOf = (id: EventId) => nouns.get(id);
  const payloads = new Map<Digest, { readonly round: number; readonly bytes: Uint8Array }>();
  const tables = new Map<Digest, ReadonlyMap<WorkerId, bigint>>();
  const beacons = new Map<number, Digest>();
  return {
    noun: nounOf,
    isSigned: signatureJudge(nounOf, crypto),
    payload: (manifest) => manifest.payload ?? payloads.get(manifest.root)?.bytes,
    proposals: (digest) =>
      [...nouns.values()].filter(
        (noun): noun is Signed<Proposal> => noun.type === 'proposal' && noun.digest === digest,
      ),
    stakes: (snapshot) => tables.get(snapshot),
    beacon: (time) => beacons.get(time),
    add(noun) {
      if (nouns.has(noun.id)) return false;
      nouns.set(noun.id, noun);
      return true;
    },
    addPayload: ({ root, round }, bytes) => void payloads.set(root, { round, bytes }),
    addStakes: (snapshot, stakes) => void tables.set(snapshot, stakes),
    addBeacon: (time, value) => void beacons.set(time, value),
    nouns: () => nouns.values(),
    proofOf([id]) {
      const author = nouns.get(id)?.key;
      for (const noun of nouns.values()) {
        if (noun.type === 'fault' && noun.culprit === author) return noun;
      }
      return undefined;
    },
    forgetBefore(round) {
      for (const noun of nouns.values()) {
        if ((roundOf(noun) ?? round) < round) nouns.delete(noun.id);
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
