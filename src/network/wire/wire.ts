/** Types of a worker's side of a run on its relays: the wire, and the profile that says which events carry what. */
import type { Clock, Notifier } from '../../base/async.ts';
import type {
  ChunkAssignment,
  Contribution,
  Heartbeat,
  Rejection,
} from '../../run/contribution.ts';
import type { HelperSlicing } from '../../run/helpers.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { PackingName } from '../../run/settings.ts';
import type { FeatureSet, FeatureValues } from '../../run/spec/features.ts';
import type { Layout } from '../../tensor/params.ts';
import type { PartialVector } from '../../tensor/partial-vector.ts';
import type { ErasureCode } from '../chunks/reed-solomon.ts';
import type { EventDraft, SignedEvent, Signer } from '../event.ts';
import type { Sha256 } from '../event-crypto.ts';
import type { Mine } from '../proof-of-work.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { Filter } from '../transport/frames.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import type { Judged } from './judged.ts';

export type LocalHeartbeat = Omit<Heartbeat, 'worker' | 'createdAt' | 'relays' | 'capabilities'>;

export interface LocalGradient {
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

export interface SealedGradient extends Sealed {
  /** Exactly what receivers will decode. */
  readonly sent: PartialVector;
  readonly payloadBytes: number;
}

export interface RoundRequest {
  readonly round: number;
  readonly base: Digest;
  readonly assignment: ChunkAssignment;
  /** Of each slice that this worker has, the first one's again; in runs with tiers. */
  readonly sliceDigests?: readonly Digest[] | undefined;
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
  readonly changed: Notifier;
  /** The latest heartbeat of every worker of the run, the own one included once it came back. */
  readonly heartbeats: ReadonlyMap<WorkerId, Heartbeat>;
  /** The newest gradients that relays hold, undecoded, once they have sent their heartbeats or after some seconds. */
  queryGradients(): Promise<readonly Gradient[]>;
  /** A newer heartbeat or gradient replaces one that is still queued; the replaced one then reports `taken`. */
  sendHeartbeat(heartbeat: LocalHeartbeat): Sending;
  /** Milliseconds since this worker last sent a heartbeat, or a gradient where peers take it for one. */
  readonly silentMs: number;
  /** This worker's key signed a heartbeat or gradient that this process did not send: another one has the key. */
  readonly isKeyInUse: boolean;
  /** True if a relay limits the event rate: events that are not needed should be left out. */
  readonly isRateLimited: boolean;
  seal(gradient: LocalGradient): Promise<SealedGradient>;
  /** What receivers decode of it, also after a restart. */
  open(sealed: Sealed, context: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  /** Counts it in the open round, and sends it. */
  send(sealed: Sealed): Sending;
  readonly relays: readonly string[];
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
  /** In a run with tiers, where the slices of the full model end; the layout is one of its prefixes then. */
  readonly sliceEnds?: readonly number[] | undefined;
  /** In a run with helpers, and which tier is this worker's. */
  readonly helpers?: (HelperSlicing & { readonly tier: number }) | undefined;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly clock: Clock;
  /** Relays that heartbeats name, without what may be secret of their addresses; default none. */
  readonly advertise?: readonly string[] | undefined;
  /** Default the pure one; on Node give `nativeSha256`. */
  readonly sha256?: Sha256 | undefined;
  /** Erasure code of payloads, one shard per relay; without it each relay gets the whole payload. */
  readonly erasure?: ErasureCode | undefined;
  /** Does the work that relays want of events (NIP-13); without it such relays get none. */
  readonly mine?: Mine | undefined;
  readonly packing?: PackingName | undefined;
  /** `auto`: bytes of events per worker and round; default 65536, one event. */
  readonly eventBudget?: number | undefined;
  /** `nstr` and topk codecs: share of the delta values that is sent, in (0, 1]. */
  readonly ratio: number;
  readonly maxContainerBytes: number;
}

/** A contribution whose payload is still on its way. */
export interface Pending {
  readonly worker: WorkerId;
  readonly done: Promise<Judged<Contribution>>;
  progress(): Progress;
  stop(): void;
}

export type GradientReading = Judged<Contribution> | Pending;

/** Reads the contributions of one round. */
export interface RoundReader {
  readonly filter: Filter;
  /** Somebody wants to see the events that count. */
  readonly keepsEvents?: boolean;
  /** Where the filter cannot be exact: whether an event is of this run and round at all; others are nobody's fault. */
  concerns?(event: SignedEvent): boolean;
  /** The round an event says it is of. */
  roundOf(event: SignedEvent): number | undefined;
  read(event: SignedEvent, round: number): GradientReading;
  close(): void;
}

/** What a profile works with: the options of the wire with their defaults. */
export interface ProfileOptions extends WireOptions {
  readonly sha256: Sha256;
  /** Signs, after the work that relays want of small events (NIP-13). */
  signWorked(draft: EventDraft): Promise<SignedEvent>;
  /** Aborted when the wire is closed: nothing is sent any more. */
  readonly signal: AbortSignal;
}

export interface Profile {
  /** The name of this worker, where the profile has names that are no keys. */
  readonly worker?: string | undefined;
  /** Relays named in heartbeats, without secrets; default those that the wire was told to advertise. */
  readonly advertised?: readonly string[] | undefined;
  readonly heartbeatFilter: Filter;
  /** The newest gradients of the run; absent where no filter finds those. */
  readonly latestFilter?: Filter;
  roundOf?(event: SignedEvent): number | undefined;
  readonly capabilities: readonly string[];
  /** A gradient is as good as a heartbeat: who signs one is there, and heartbeats beside it are left out. */
  readonly gradientsAreHeartbeats: boolean;
  buildHeartbeat(heartbeat: Heartbeat): EventDraft;
  readHeartbeat(event: SignedEvent): Judged<Heartbeat>;
  seal(gradient: LocalGradient): Promise<SealedGradient>;
  /** Throws a `TypeError` when it is not one of ours. */
  open(sealed: Sealed, context: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  send(sealed: Sealed): Sending;
  openRound(request: RoundRequest): RoundReader;
  close(): void;
}

export const contextOf = (
  { base, anyBase }: RoundRequest,
  round: number,
  nowMs: number,
): { round: number; base: Digest; checkBase: boolean; nowSeconds: number } => ({
  round,
  base,
  checkBase: anyBase === undefined,
  nowSeconds: nowMs / 1000,
});

/** Which events a run is made of: ours, or those of the Python reference. */
export type ProfileName = 'nostrain/1' | 'nostrain/0';

export type CreateProfile = (options: ProfileOptions) => Profile;
