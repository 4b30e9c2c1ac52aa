/**
 * Keeps a worker from contradicting its own signatures: the vote journal on disk, its memory after a restart, and the
 * detection of other processes with the same key. Also measures arrival times, from which the next deadline follows.
 */

import { deferred } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { RelayError } from '../../base/errors.ts';
import type { RoundContext, RoundState } from '../../consensus/round/round-state.ts';
import { type Beginning, delayOf, delaysIn } from '../../consensus/round/timing.ts';
import { parseEvent, type SignedEvent } from '../../network/event.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import { idOf } from '../../worker/state.ts';
import type { Chain } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { PrivateStore } from '../features/feature.ts';
import type { CertifiedState } from '../state.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';

/** What a worker signed in the current round. */
export interface Entry {
  readonly round: number;
  readonly parent: Digest;
  readonly machine: RoundState;
  /** This worker's events by the message they were signed for, so that a retry sends the same bytes. */
  readonly own: Readonly<Record<string, SignedEvent>>;
  /** Arrival times of manifests in recent rounds, in milliseconds. */
  readonly delays: readonly number[];
}

/** Stores finished rounds as text, by round. */
export interface BackfillStore {
  /** Bytes to keep; default KEPT_BYTES. Rounds since the oldest checkpoint on relays are kept beyond it. */
  readonly maxBytes?: number;
  save(round: number, text: string): Promise<void>;
  load(round: number): Promise<string | undefined>;
  remove(round: number): Promise<void>;
  /** Returns the bytes of each stored round. */
  sizes(): Promise<ReadonlyMap<number, number>>;
}

/** Bytes of finished rounds that a worker keeps: some thousand rounds of ten workers. */
export const KEPT_BYTES = 64 << 20;

/** Stores what a worker signed, so that it never contradicts itself after a restart. */
export interface Journal {
  /** Returns the last entry; undefined if it is missing or unreadable. */
  load(): Promise<Entry | undefined>;
  save(entry: Entry): Promise<void>;
  /**
   * Stores the events that decided each round, to republish them if relays lose them; without it this worker does not.
   */
  readonly backfill?: BackfillStore | undefined;
  /** Stores private states that may have to be disclosed; default in memory, lost by a restart. */
  readonly states?: PrivateStore | undefined;
}

/** Formats an entry, or a round state alone, for the disk. Stakes exceed JSON numbers and are written as strings. */
export const formatEntry = (entry: Entry | RoundState): string =>
  JSON.stringify(entry, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));

/** Parses a round state that this worker wrote; not for untrusted text. */
export const parseRoundState = (text: string): RoundState => JSON.parse(text, revive) as RoundState;

/** Parses an entry that this worker wrote; undefined if it is not one. Throws if the text is not JSON. */
export function parseEntry(text: string): Entry | undefined {
  const entry = JSON.parse(text, revive) as Entry;
  const isOne =
    Number.isSafeInteger(entry.round) &&
    typeof entry.parent === 'string' &&
    Object.values(entry.own).every((event) => parseEvent(event).ok);
  return isOne && entry.machine.round === entry.round ? entry : undefined;
}

/** Restores committee weights, the only numbers that exceed JSON. */
const revive = (key: string, value: unknown): unknown =>
  key === 'weights' && Array.isArray(value) ? value.map((each) => BigInt(each)) : value;

/** What this worker knows about its own signatures in a round from before it was started. */
export interface Memory {
  readonly entry: Entry | undefined;
  /** First recovery epoch that it may vote in: in earlier ones it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** The disk had no entry of any round. */
  readonly isEmpty: boolean;
}

interface MemoryPorts {
  readonly me: WorkerId;
  readonly journal: Pick<Journal, 'load'>;
  readonly control: Pick<Control, 'queryRound'>;
  readonly evidence: EvidenceStore;
  readonly signal: AbortSignal;
}

/** Number of rounds that the adaptive deadline learns from. */
const LEARNT_ROUNDS = 3;

export class VoteMemory {
  readonly delays: Delays;
  readonly #ports: MemoryPorts;
  readonly #entry: Promise<Entry | undefined>;
  /** Arrival times of contributions, by round. */
  #arrivals: readonly (readonly number[])[] = [];

  constructor(ports: MemoryPorts) {
    this.#ports = ports;
    this.#entry = ports.journal.load();
    const arrivals = () => this.#arrivals;
    this.delays = {
      get recent() {
        return arrivals().flat();
      },
      learn: (delays) => {
        this.#arrivals = [...this.#arrivals, delays].slice(-LEARNT_ROUNDS);
      },
    };
  }

  /**
   * Returns what this worker signed in a round. After a restart it queries relays first; with an empty disk it votes
   * only from recovery epoch 1 on if it may have signed something before.
   */
  async of({ round, parent }: Chain, isReturning: boolean): Promise<Memory> {
    const entry = await this.#entry;
    if (this.#arrivals.length === 0 && entry) this.#arrivals = [entry.delays];
    if (isReturning) await this.#queryRound(round);
    if (entry) {
      const isOfRound = entry.round === round && entry.parent === parent;
      return { entry: isOfRound ? entry : undefined, voteFrom: 0, isEmpty: false };
    }
    if (!isReturning) return { entry: undefined, voteFrom: 0, isEmpty: true };
    const { me, evidence } = this.#ports;
    const isMine = (message: ProtocolMessage) =>
      message.key === me && 'round' in message && message.round === round;
    const hasForgotten = round > 0 || [...evidence.messages()].some(isMine);
    return { entry, voteFrom: hasForgotten ? 1 : 0, isEmpty: true };
  }

  /** Resolves when all reachable relays have answered, or most of them and a short grace time is over. */
  async #queryRound(round: number): Promise<void> {
    const { control, evidence, me, signal } = this.#ports;
    await control.queryRound(round, {
      take: (message) => void evidence.add(message, message.key === me),
    });
    signal.throwIfAborted();
  }
}

/**
 * Returns what the worker may continue voting from: if it may have signed votes that it does not remember, it waits for
 * the next recovery epoch.
 */
export function votesOfBefore(
  { entry, voteFrom }: Memory,
  { isSittingOut, isGone }: { readonly isSittingOut: boolean; readonly isGone: boolean },
): Pick<Memory, 'entry' | 'voteFrom'> {
  if (isGone) return { entry, voteFrom: Number.MAX_SAFE_INTEGER };
  return isSittingOut ? { entry: undefined, voteFrom: Math.max(1, voteFrom) } : { entry, voteFrom };
}

export const sentBefore = ({
  sent,
  pending,
  contributed = [],
}: CertifiedState): readonly EventId[] =>
  [sent, pending, ...contributed.map((each) => each.sent)].flatMap((each) =>
    each ? [idOf(each)] : [],
  );

export const signedIn = (entry: Entry | undefined): readonly EventId[] =>
  Object.values(entry?.own ?? {}).map(({ id }) => id);

/** What a worker knows when it opens a round. */
export interface RoundOpening {
  /** True until the worker has played a round in this session. */
  readonly isReturning: boolean;
  /** The disk has signatures of an earlier session. */
  readonly hasMemory: boolean;
  /** Stored messages of the round on the relays that answered. */
  readonly stored: Iterable<ProtocolMessage>;
}

/** Maximum own events remembered, of this and the previous round, to tell them from those of another process. */
const MOST_KNOWN = 4096;

export class KeyWatch {
  readonly #me: WorkerId;
  readonly #onOther: (round: number) => void;
  readonly #isEarlier: (id: EventId) => boolean;
  readonly #known = new Recent<true>(MOST_KNOWN);
  readonly #stop = deferred<RelayError>();
  /** Rejects when another process plays with this key. A single promise that every round waits for. */
  readonly conflict: Promise<never> = this.#stop.promise.then((error) => {
    throw error;
  });
  #at: Pick<Chain, 'round' | 'parent'> | undefined;
  /** When the round opened, relays had no event of this key that the worker does not remember. */
  #isClean = true;
  #isSittingOut = false;
  #isReported = false;

  /**
   * Calls `onOther` once if another process signs with this key although this worker came first. `isEarlier` reports
   * whether an event was signed before this session.
   */
  constructor(me: WorkerId, onOther: (round: number) => void, isEarlier: (id: EventId) => boolean) {
    this.#me = me;
    this.#onOther = onOther;
    this.#isEarlier = isEarlier;
    this.conflict.catch(() => undefined);
  }

  /** Whether this worker skips the current round. */
  get isSittingOut(): boolean {
    return this.#isSittingOut;
  }

  signed(id: EventId): void {
    this.#known.set(id, true);
  }

  begin({ round, parent, ledger }: Chain, { isReturning, hasMemory, stored }: RoundOpening): void {
    const isLater = this.#at !== undefined && this.#at.round < round;
    this.#at = { round, parent };
    if (isLater) this.#known.age();
    this.#isClean = ![...stored].some((message) => this.#isForeign(message));
    const isListed = ledger.members.some(({ key, tip }) => key === this.#me && tip !== null);
    const isForgotten = !hasMemory && isListed && round > 0;
    if (isReturning) this.#isSittingOut ||= isForgotten || !this.#isClean;
    // it signed nothing since it was started, and others follow the round from its beginning
    else if (this.#isSittingOut && isLater && !this.#isClean) this.#clash();
  }

  /** Checks a message of the current round, by any author. */
  heard(message: ProtocolMessage): void {
    // relays that had events of an earlier session may send more of them
    if (!this.#isClean || !this.#isForeign(message)) return;
    if (this.#isEarlier(message.id)) this.#isClean = false;
    else if (this.#isSittingOut) this.#clash();
    else if (!this.#isReported) {
      this.#isReported = true;
      this.#onOther(this.#at!.round);
    }
  }

  /** Records the end of a round. If the worker saw all of it, no other process signed with its key. */
  ended(): void {
    if (this.#isClean) this.#isSittingOut = false;
  }

  #isForeign(message: ProtocolMessage): boolean {
    if (message.key !== this.#me || this.#known.get(message.id) || this.#at === undefined)
      return false;
    const content = message.type === 'manifest' ? message.manifest : message;
    if (!('round' in content) || !('parent' in content)) return false;
    return content.round === this.#at.round && content.parent === this.#at.parent;
  }

  #clash(): void {
    this.#stop.settle(
      new RelayError(
        'run/key-in-use',
        `another process plays in this run with the key of ${shortName(this.#me)}`,
        {
          hint: 'stop one of the two, or give one its own key: --key-file FILE',
        },
      ),
    );
  }
}

/** Arrival times of contributions in recent rounds, in milliseconds; the adaptive deadline follows from them. */
export interface Delays {
  readonly recent: readonly number[];
  learn(delays: readonly number[]): void;
}

export interface ArrivalOptions {
  readonly context: RoundContext;
  readonly beginning: Beginning;
  /** The worker resumes the round from disk. */
  readonly isResumed: boolean;
  readonly delays: Delays;
}

export class ArrivalTimes {
  readonly #options: ArrivalOptions;
  readonly #delays = new Map<WorkerId, number>();
  #hasTaught = false;

  constructor(options: ArrivalOptions) {
    this.#options = options;
  }

  note(
    worker: WorkerId,
    message: ProtocolMessage | undefined,
    machine: RoundState,
    now: number,
  ): void {
    const { context, beginning, isResumed } = this.#options;
    // after a restart, stored contributions arrived at unknown times
    const isThere = !isResumed && machine.back === null;
    const signed = message?.type === 'manifest' ? 1000 * (message.manifest.createdAt + 1) : now;
    const delay = delayOf(isThere ? machine : beginning, context, { now, signed });
    if (delay !== undefined && !this.#delays.has(worker)) this.#delays.set(worker, delay);
  }

  /** Passes on the arrival times once the round is decided, unless this worker only followed it. */
  teach({ closed, decided }: RoundState): void {
    if (closed === null || decided === null || this.#hasTaught) return;
    this.#hasTaught = true;
    const { context, beginning, isResumed, delays } = this.#options;
    // founders begin the first round together, so slow arrivals do not mean a later start
    const isTogether = context.round === 0 && !isResumed && this.#delays.has(context.me);
    const learned = isTogether
      ? [...this.#delays.values()]
      : delaysIn(this.#delays, beginning, context.me);
    if (learned.length > 0) delays.learn(learned);
  }
}
