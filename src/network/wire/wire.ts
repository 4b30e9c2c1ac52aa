/** One worker's side of a run on its relays: heartbeats and gradients out, verified contributions and heartbeats in. */
import type { Clock, Notifier } from '../../base/async.ts';
import type { ChunkAssignment } from '../../run/chunk-assignment.ts';
import type { Contribution, Rejection } from '../../run/contribution.ts';
import type { Heartbeat } from '../../run/heartbeat.ts';
import type { HelperRings } from '../../run/helpers.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PackingName } from '../../run/settings.ts';
import type { FeatureSet, FeatureValues } from '../../run/spec/features.ts';
import type { Layout } from '../../tensor/params.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { Stripe } from '../chunks/reed-solomon.ts';
import type { SignedEvent, Signer } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Mine } from '../proof-of-work.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { RelaySet } from '../transport/relay-set.ts';

export type OwnHeartbeat = Omit<Heartbeat, 'worker' | 'createdAt' | 'relays' | 'capabilities'>;

export interface OwnGradient {
  readonly round: number;
  readonly base: Digest;
  readonly steps: number;
  readonly examples: number;
  readonly assignment: ChunkAssignment;
  /** Digest of the outcome before, where rounds are certified. */
  readonly parent?: Digest | undefined;
  /** What features of the run may add; left out where the run does not name them. */
  readonly features?: FeatureValues<'manifest'>;
  /** Id of this worker's last one; undefined in its first. */
  readonly prev: string | undefined;
  /** Δ = before - after plus what was not sent before, f64 by layout. */
  readonly delta: Float64Array;
}

/** What a restart needs to send the same bytes again. */
export interface Sealed {
  /** Signed. On disk it is JSON text, which reads back to the same bytes. */
  readonly event: SignedEvent;
  /** The payload, where it travels beside the event: its chunks are made from both, always the same ones. */
  readonly payload: Uint8Array | undefined;
  /** JSON of all events it takes. */
  readonly eventBytes: number;
}

/** A signed gradient, not sent yet. */
export interface SealedGradient extends Sealed {
  /** Exactly what receivers will decode. */
  readonly sent: PartialVector;
  readonly payloadBytes: number;
}

export interface RoundRequest {
  readonly round: number;
  readonly base: Digest;
  readonly assignment: ChunkAssignment;
  /** Of each ring that this worker has, the first one's again; in runs with tiers. */
  readonly rings?: readonly Digest[] | undefined;
  /** Under `async`: gradients of any base and any round newer than `folded` count. */
  readonly anyBase?: { readonly folded: Readonly<Record<WorkerId, number>> };
}

/** A gradient that relays hold: who signed it, for which round, and when (Unix seconds). */
export interface Gradient {
  readonly worker: WorkerId;
  readonly round: number;
  readonly createdAt: number;
}

/** What has arrived for a round so far. */
export interface RoundInbox {
  /** One per worker and round, the newest it signed; under `async` a worker may have several rounds in. */
  readonly contributions: ReadonlyMap<string, Contribution>;
  /** Their events, where the profile keeps them. */
  readonly events: ReadonlyMap<string, SignedEvent>;
  /** In order of arrival, one per event; bounded. */
  readonly rejections: readonly Rejection[];
  /** Every reachable relay has sent what it stored. */
  readonly caughtUp: boolean;
  /** How far the payloads under way are, all together; undefined when there are none. */
  pulling(): Progress | undefined;
  /** Ends the wait for payloads under way: each becomes a rejection that says how far it came. */
  giveUp(): void;
  close(): void;
}

/** Sends and collects the messages of a run, as `createWire` gives it. */
export interface Wire {
  readonly me: WorkerId;
  /** Notifies when a heartbeat, a contribution or a rejection arrives. */
  readonly changed: Notifier;
  /** The latest heartbeat of every worker of the run, the own one included once it came back. */
  readonly heartbeats: ReadonlyMap<WorkerId, Heartbeat>;
  /** The newest gradients that relays hold, once they have also sent the heartbeats they hold, or after some seconds. Nobody decoded them. */
  lookAround(): Promise<readonly Gradient[]>;
  /** A newer heartbeat or gradient replaces one that is still queued; the replaced one then reports `taken`. */
  sendHeartbeat(heartbeat: OwnHeartbeat): Sending;
  /** Milliseconds since this worker last gave a sign of life: a heartbeat, or a gradient where peers take it for one. */
  readonly silentMs: number;
  /** A heartbeat or gradient came that this worker's key signed, and this process did not send: another one has the key. */
  readonly isKeyInUse: boolean;
  /** Some relay limits how much it is sent: what can be left out should be. */
  readonly isPaced: boolean;
  seal(gradient: OwnGradient): Promise<SealedGradient>;
  /** What receivers decode of it, also after a restart. */
  open(sealed: Sealed, place: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  /** Counts it in the open round, and sends it. */
  send(sealed: Sealed): Sending;
  readonly relays: readonly string[];
  /** Those whose connection is open now. */
  reachable(): readonly string[];
  /** One line for each relay that is at fault now, beginning with its address. */
  troubles(): readonly string[];
  openRound(request: RoundRequest): RoundInbox;
  traffic(): { readonly bytesSent: number; readonly bytesReceived: number };
  close(): Promise<void>;
}

/** What `createWire` takes: the run, its layout, the relays, a signer and limits. */
export interface WireOptions {
  /** The workers of the run, where they are named: what others say is refused. Empty or absent: anybody. */
  readonly peers?: readonly WorkerId[] | undefined;
  readonly run: string;
  /** Those of a certified run; none outside of one. */
  readonly features?: FeatureSet | undefined;
  readonly layout: Layout;
  /** In a run with tiers, where the rings of the whole model end; the layout is one of its prefixes then. */
  readonly ringEnds?: readonly number[] | undefined;
  /** In a run with helpers, and which tier is this worker's. */
  readonly helpers?: (HelperRings & { readonly tier: number }) | undefined;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly clock: Clock;
  /** Relays that heartbeats name, without what may be secret of their addresses; default none. */
  readonly advertise?: readonly string[] | undefined;
  /** Default the pure one; on Node give `nativeSha256`. */
  readonly sha256?: Sha256 | undefined;
  /** Over how many relays payloads are striped; without it each relay gets the whole payload. */
  readonly stripe?: Stripe | undefined;
  /** Does the work that relays want of events (NIP-13); without it such relays get none. */
  readonly mine?: Mine | undefined;
  /** How deltas are packed. */
  readonly packing?: PackingName | undefined;
  /** `auto`: bytes of events per worker and round; default 65536, one event. */
  readonly eventBudget?: number | undefined;
  /** `nstr` and topk codecs: share of the delta values that is sent, in (0, 1]. */
  readonly ratio: number;
  /** Larger payloads are refused unread. */
  readonly maxContainerBytes: number;
}
