/** Types of a worker's connection to its run: the wire, and the profile that defines which events carry what. */
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
import type { Mine, SignWorked } from '../proof-of-work.ts';
import type { Progress, Sending } from '../transport/delivery.ts';
import type { Filter } from '../transport/frames.ts';
import type { RelaySet } from '../transport/relay-set.ts';
import type { ClaimContext, Judged } from './judged.ts';

export type LocalHeartbeat = Omit<Heartbeat, 'worker' | 'createdAt' | 'relays' | 'capabilities'>;

export interface LocalGradient {
  readonly round: number;
  /** Digest of the state from which the worker started the round; in a certified run, of its model root. */
  readonly base: Digest;
  readonly steps: number;
  readonly examples: number;
  readonly assignment: ChunkAssignment;
  /** Digest of the previous outcome, in certified runs. */
  readonly parent?: Digest | undefined;
  /** Values that features of the run add; omitted if the run does not name them. */
  readonly features?: FeatureValues<'manifest'>;
  /** Id of this worker's previous event; undefined in its first. */
  readonly prev: string | undefined;
  /** Δ = before - after plus the residual, f64 by layout. */
  readonly delta: Float64Array;
}

/** What is needed after a restart to send the same bytes again. */
export interface Sealed {
  /** The signed event. On disk it is JSON text, which reads back to the same bytes. */
  readonly event: SignedEvent;
  /** The payload, if it is not inside the event; its chunks are built from both and are always the same. */
  readonly payload: Uint8Array | undefined;
  /** Bytes of all its events as JSON. */
  readonly eventBytes: number;
}

export interface SealedGradient extends Sealed {
  /** Exactly what receivers decode. */
  readonly sent: PartialVector;
  readonly payloadBytes: number;
}

export interface RoundRequest extends Pick<LocalGradient, 'round' | 'base' | 'assignment'> {
  /** Digest of each slice's start state, in runs with tiers; the first slice's equals `base`. */
  readonly sliceDigests?: readonly Digest[] | undefined;
  /** Under `async`: gradients of any base and of any round newer than `folded` count. */
  readonly anyBase?: { readonly folded: Readonly<Record<WorkerId, number>> };
}

/** A gradient stored by relays: its author, its round and its date (Unix seconds). */
export type Gradient = Pick<Contribution, 'worker' | 'round' | 'createdAt'>;

/** What has arrived for a round so far. */
export interface RoundInbox {
  /** One per worker and round, the newest it signed; under `async` a worker may have several rounds. */
  readonly contributions: ReadonlyMap<string, Contribution>;
  readonly events: ReadonlyMap<string, SignedEvent>;
  /** In order of arrival, one per event; bounded. */
  readonly rejections: readonly Rejection[];
  /** Every reachable relay has sent its stored events. */
  readonly caughtUp: boolean;
  /** Returns the total progress of all payloads being pulled; undefined if nothing is being pulled. */
  pulling(): Progress | undefined;
  /** Stops waiting for payloads: each becomes a rejection with its progress. */
  giveUp(): void;
  close(): void;
}

/** Sends and collects the messages of a run; created by `createWire`. */
export interface Wire {
  readonly me: WorkerId;
  readonly changed: Notifier;
  /** The latest heartbeat of every worker of the run, including this one once it came back. */
  readonly heartbeats: ReadonlyMap<WorkerId, Heartbeat>;
  /** Returns the newest stored gradients, undecoded, once relays have sent their heartbeats or after some seconds. */
  queryGradients(): Promise<readonly Gradient[]>;
  /**
   * Sends a heartbeat. A newer heartbeat or gradient replaces one that is still queued; the replaced one then reports
   * `taken`.
   */
  sendHeartbeat(heartbeat: LocalHeartbeat): Sending;
  /** Milliseconds since this worker last sent a heartbeat, or a gradient that counts as one. */
  readonly silentMs: number;
  /** True if this worker's key signed a heartbeat or gradient that this process did not send. */
  readonly isKeyInUse: boolean;
  /** True if a relay limits the event rate: unnecessary events should be omitted. */
  readonly isRateLimited: boolean;
  seal(gradient: LocalGradient): Promise<SealedGradient>;
  /** Returns what receivers decode from an update, also after a restart. */
  open(sealed: Sealed, context: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  /** Reports whether every relay requires proof of work that the event does not have and could get. */
  lacksWork(event: SignedEvent): boolean;
  /** Signs an event again, with a newer date and the proof of work that relays require by now. */
  renew(event: SignedEvent): Promise<SignedEvent>;
  /** Adds an update to the open round and sends it. */
  send(sealed: Sealed): Sending;
  /** Sends this worker's newest updates again to relays that have lost them. Never rejects. */
  resend(): Promise<unknown>;
  readonly relays: readonly string[];
  reachable(): readonly string[];
  /** Returns one line per relay that is at fault now, beginning with its address. */
  troubles(): readonly string[];
  openRound(request: RoundRequest): RoundInbox;
  traffic(): { readonly bytesSent: number; readonly bytesReceived: number };
  close(): Promise<void>;
}

/** Options of `createWire`: the run, its layout, the relays, a signer and limits. */
export interface WireOptions {
  /** Workers of the run, if they are named: others are refused. Empty or absent: any worker. */
  readonly peers?: readonly WorkerId[] | undefined;
  readonly run: string;
  /** Features of a certified run; absent in other runs. */
  readonly features?: FeatureSet | undefined;
  readonly layout: Layout;
  /** In a run with helpers: the slicing, and this worker's tier. */
  readonly helpers?: (HelperSlicing & { readonly tier: number }) | undefined;
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly clock: Clock;
  /** Relays to name in heartbeats, without secrets in their addresses; default none. */
  readonly advertise?: readonly string[] | undefined;
  /** Default pure JavaScript; on Node, pass `nativeSha256`. */
  readonly sha256?: Sha256 | undefined;
  /** Erasure code of payloads, one shard per relay; without it each relay gets the whole payload. */
  readonly erasure?: ErasureCode | undefined;
  /** Does the proof of work that relays require (NIP-13); default in turns on this thread. On Node, pass `mine`. */
  readonly mine?: Mine | undefined;
  /** Called with a message when the wire has to wait, such as for time to work. */
  readonly onNotice?: ((message: string) => void) | undefined;
  readonly packing?: PackingName | undefined;
  /** `trellis`: maximum bytes of events per worker and round; default 65536, one event. */
  readonly eventBudget?: number | undefined;
  readonly maxContainerBytes: number;
}

/** A contribution whose payload is being pulled. */
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
  /** Whether the events of contributions that count are kept. */
  readonly keepsEvents?: boolean;
  /**
   * Reports whether an event is of this run and round at all; used if the filter cannot be exact. Others are ignored
   * without blame.
   */
  concerns?(event: SignedEvent): boolean;
  /** Returns the round that an event names. */
  roundOf(event: SignedEvent): number | undefined;
  read(event: SignedEvent, round: number): GradientReading;
  close(): void;
}

/** What a profile uses: the options of the wire with their defaults. */
export interface ProfileOptions extends WireOptions {
  readonly sha256: Sha256;
  /** Signs an event, after the proof of work that relays require of small events (NIP-13). */
  readonly signWorked: SignWorked;
  /** Aborted when the wire is closed: nothing is sent any more. */
  readonly signal: AbortSignal;
}

export interface Profile {
  /** The name of this worker, if the profile has names that are not keys. */
  readonly worker?: string | undefined;
  /** Relays named in heartbeats, without secrets; default those in `advertise`. */
  readonly advertised?: readonly string[] | undefined;
  readonly heartbeatFilter: Filter;
  /** Filter of the newest gradients of the run; absent if no filter selects them. */
  readonly latestFilter?: Filter;
  roundOf?(event: SignedEvent): number | undefined;
  readonly capabilities: readonly string[];
  /** Whether a gradient counts as a heartbeat, so that heartbeats next to it are omitted. */
  readonly gradientsAreHeartbeats: boolean;
  buildHeartbeat(heartbeat: Heartbeat): EventDraft;
  readHeartbeat(event: SignedEvent): Judged<Heartbeat>;
  seal(gradient: LocalGradient): Promise<SealedGradient>;
  /** Decodes an update of this worker. Throws a TypeError if it is not one. */
  open(sealed: Sealed, context: Pick<RoundRequest, 'round' | 'assignment'>): PartialVector;
  send(sealed: Sealed): Sending;
  openRound(request: RoundRequest): RoundReader;
  close(): void;
}

export const contextOf = (
  { base, anyBase }: RoundRequest,
  round: number,
  nowMs: number,
): Pick<ClaimContext, 'round' | 'base' | 'nowSeconds'> => ({
  round,
  base: anyBase ? undefined : base,
  nowSeconds: nowMs / 1000,
});

/** Which events a run consists of: ours, or those of the Python reference. */
export type ProfileName = 'nostrain/1' | 'nostrain/0';

export type CreateProfile = (options: ProfileOptions) => Profile;
