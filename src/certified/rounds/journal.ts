/**
 * Keeps a worker from signing twice: the vote journal on disk, the memory of it after a restart, and the watch for
 * other uses of its key. Also measures arrival times, from which the next deadline follows.
 */
import { deferred } from '../../base/async.ts';
import { Recent } from '../../base/bounded.ts';
import { RelayError } from '../../base/errors.ts';
import type { RoundContext, RoundState } from '../../consensus/round/round-state.ts';
import { type Beginning, delayOf, delaysIn } from '../../consensus/round/timing.ts';
import { parseEvent, type SignedEvent } from '../../network/event.ts';
import type { Digest, EventId, WorkerId } from '../../run/ids.ts';
import { idOf } from '../../worker/state.ts';
import type { Chain } from '../decisions/chain.ts';
import type { EvidenceStore } from '../decisions/evidence.ts';
import type { PrivateStore } from '../features/feature.ts';
import type { CertifiedState } from '../state.ts';
import type { ProtocolMessage } from '../wire/certified-events.ts';
import type { Control } from '../wire/control.ts';

/** What a worker signed in the round in progress. */
export interface Entry {
  readonly round: number;
  readonly parent: Digest;
  readonly machine: RoundState;
  /** Own events by the content they were signed for: a retry sends the same bytes. */
  readonly own: Readonly<Record<string, SignedEvent>>;
  /** How long manifests took to arrive in the last rounds, in milliseconds. */
  readonly delays: readonly number[];
}

/** Where past rounds are kept. */
export interface BackfillStore {
  save(round: number, text: string): Promise<void>;
  load(round: number): Promise<string | undefined>;
}

/** Where a worker keeps what it signed, so that it never contradicts itself after a restart. */
export interface Journal {
  /** The last entry; undefined where there is none, or none that can be read. */
  load(): Promise<Entry | undefined>;
  save(entry: Entry): Promise<void>;
  /** Keeps what decided each round, to publish it again if relays forget it; without it this worker does not. */
  readonly backfill?: BackfillStore | undefined;
  /** Keeps private states that may have to be shown; default in memory, which a restart loses. */
  readonly states?: PrivateStore | undefined;
}

/** An entry, or the state of a round alone, as text for the disk. Stakes are larger than what JSON numbers hold. */
export const formatEntry = (entry: Entry | RoundState): string =>
  JSON.stringify(entry, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));

/** The state of a round again. The text is this worker's own; nobody else's is read. */
export const parseRoundState = (text: string): RoundState => JSON.parse(text, revive) as RoundState;

/** An entry again; undefined for what is none. Throws where the text is no JSON. */
export function parseEntry(text: string): Entry | undefined {
  const entry = JSON.parse(text, revive) as Entry;
  const isOne =
    Number.isSafeInteger(entry.round) &&
    typeof entry.parent === 'string' &&
    Object.values(entry.own).every((event) => parseEvent(event).ok);
  return isOne && entry.machine.round === entry.round ? entry : undefined;
}

/** Only the weights of committees are numbers beyond JSON. */
const revive = (key: string, value: unknown): unknown =>
  key === 'weights' && Array.isArray(value) ? value.map((each) => BigInt(each)) : value;

/** What is known of what this worker signed in a round before it was started. */
export interface Memory {
  readonly entry: Entry | undefined;
  /** The first recovery epoch that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** Nothing was on disk, of any round. */
  readonly isEmpty: boolean;
}

interface MemoryPorts {
  readonly me: WorkerId;
  readonly journal: Pick<Journal, 'load'>;
  readonly control: Pick<Control, 'queryRound'>;
  readonly evidence: EvidenceStore;
  readonly signal: AbortSignal;
}

/** Rounds that the adaptive deadline learns from. */
const LEARNT_ROUNDS = 3;

export class VoteMemory {
  readonly delays: Delays;
  readonly #ports: MemoryPorts;
  readonly #entry: Promise<Entry | undefined>;
  /** How long contributions took, round by round. */
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
   * What this worker signed in a round. After a restart it queries relays, and with an empty disk does not vote at
   * first.
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

  /** Until all relays that can be reached have answered, or most of them and a little more time. */
  async #queryRound(round: number): Promise<void> {
    const { control, evidence, me, signal } = this.#ports;
    await control.queryRound(round, {
      take: (message) => void evidence.add(message, message.key === me),
    });
    signal.throwIfAborted();
  }
}

/** What it goes on voting from: who may have signed what it does not remember waits for the next recovery epoch. */
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

/** A round as this worker finds it when it opens it. */
export interface RoundOpening {
  /** It was started, and has not played a round since. */
  readonly isReturning: boolean;
  /** Something of what it signed before is on disk. */
  readonly hasMemory: boolean;
  /** What relays have for the round, as far as they answered. */
  readonly stored: Iterable<ProtocolMessage>;
}

/** Own events remembered of this round and the one before, so that they are not taken for another process's. */
const MOST_KNOWN = 4096;

export class KeyWatch {
  readonly #me: WorkerId;
  readonly #onOther: (round: number) => void;
  readonly #known = new Recent<true>(MOST_KNOWN);
  readonly #stop = deferred<RelayError>();
  /** Rejects when another process plays with this key. One promise: each round waits for it. */
  readonly conflict: Promise<never> = this.#stop.promise.then((error) => {
    throw error;
  });
  #at: Pick<Chain, 'round' | 'parent'> | undefined;
  /** Nothing of this key was there when the round was opened that it does not remember. */
  #isClean = true;
  #isSittingOut = false;
  #isReported = false;

  /** `onOther` hears once that somebody else signs with this key although this worker was first. */
  constructor(me: WorkerId, onOther: (round: number) => void) {
    this.#me = me;
    this.#onOther = onOther;
    this.conflict.catch(() => undefined);
  }

  /** Whether this worker signs no contribution in the round in progress. */
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

  /** A message of the round in progress, from anybody. */
  heard(message: ProtocolMessage): void {
    // where relays had some of an earlier session, they may bring more of it
    if (!this.#isClean || !this.#isForeign(message)) return;
    if (this.#isSittingOut) this.#clash();
    else if (!this.#isReported) {
      this.#isReported = true;
      this.#onOther(this.#at!.round);
    }
  }

  /** The round in progress was decided, and this worker saw it from its beginning: nobody else signed with its key. */
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
        `another process plays in this run with the key ${this.#me}`,
        {
          hint: 'stop one of the two, or join with a key of its own: --key-file FILE',
        },
      ),
    );
  }
}

/** How long contributions took to arrive in the last rounds, in milliseconds: the adaptive deadline follows from it. */
export interface Delays {
  readonly recent: readonly number[];
  learn(delays: readonly number[]): void;
}

export interface ArrivalOptions {
  readonly context: RoundContext;
  readonly beginning: Beginning;
  /** It goes on with what is on disk of the round. */
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
    // what a restart finds came while nobody was there to see it, though the round began before
    const isThere = !isResumed && machine.back === null;
    const signed = message?.type === 'manifest' ? 1000 * (message.manifest.createdAt + 1) : now;
    const delay = delayOf(isThere ? machine : beginning, context, { now, signed });
    if (delay !== undefined && !this.#delays.has(worker)) this.#delays.set(worker, delay);
  }

  /** Hands on the arrival times once the round is decided; not where this worker only followed it. */
  teach({ closed, decided }: RoundState): void {
    if (closed === null || decided === null || this.#hasTaught) return;
    this.#hasTaught = true;
    const { context, beginning, isResumed, delays } = this.#options;
    // founders begin the first round together: who takes longer than most began no later than they did
    const isTogether = context.round === 0 && !isResumed && this.#delays.has(context.me);
    const learned = isTogether
      ? [...this.#delays.values()]
      : delaysIn(this.#delays, beginning, context.me);
    if (learned.length > 0) delays.learn(learned);
  }
}
