/**
 * Keeps an honest key from being thrown out for signing twice: a worker that comes back without a memory, or with an old one, sits a round
 * out, and one that finds its key in use elsewhere says so and stops. Two different contributions of one key in one round are a fault that
 * anybody can prove, whatever the reason.
 */
import { deferred } from '../base/deferred.ts';
import { RelayError } from '../base/errors.ts';
import type { EventId, WorkerId } from '../run/ids.ts';
import type { ProtocolMessage } from './evidence.ts';
import type { Chain } from './history.ts';

/** A round as this worker finds it when it opens it. */
export interface Opening {
  /** It was started, and has not played a round since. */
  readonly isReturning: boolean;
  /** Something of what it signed before is on disk. */
  readonly hasMemory: boolean;
  /** What relays have for the round, as far as they answered. */
  readonly here: Iterable<ProtocolMessage>;
}

/** Own events that are remembered, so that they are not taken for somebody else's. */
const MOST_KNOWN = 4096;

export class KeyWatch {
  readonly #me: WorkerId;
  readonly #onOther: (round: number) => void;
  readonly #known = new Set<EventId>();
  readonly #stop = deferred<RelayError>();
  #at: Pick<Chain, 'round' | 'parent'> | undefined;
  /** Nothing of this key was there when the round was opened that it does not remember. */
  #isClean = true;
  #isSittingOut = false;
  #isTold = false;

  /** `onOther` hears once that somebody else signs with this key although this worker was first. */
  constructor(me: WorkerId, onOther: (round: number) => void) {
    this.#me = me;
    this.#onOther = onOther;
  }

  /** Whether this worker signs no contribution in the round in progress. */
  get isSittingOut(): boolean {
    return this.#isSittingOut;
  }

  /** Rejects when another process plays with this key. */
  get conflict(): Promise<never> {
    return this.#stop.promise.then((error) => {
      throw error;
    });
  }

  /** An event that this worker signed, now or in an earlier session. */
  signed(id: EventId): void {
    this.#known.add(id);
    for (const oldest of this.#known) {
      if (this.#known.size <= MOST_KNOWN) break;
      this.#known.delete(oldest);
    }
  }

  /** A round begins. */
  begin({ round, parent, ledger }: Chain, { isReturning, hasMemory, here }: Opening): void {
    const isLater = this.#at !== undefined && this.#at.round < round;
    this.#at = { round, parent };
    this.#isClean = ![...here].some((noun) => this.#isForeign(noun));
    const isListed = ledger.members.some(({ key, tip }) => key === this.#me && tip !== null);
    const isForgotten = !hasMemory && isListed && round > 0;
    if (isReturning) this.#isSittingOut ||= isForgotten || !this.#isClean;
    // it signed nothing since it was started, and others follow the round from its beginning
    else if (this.#isSittingOut && isLater && !this.#isClean) this.#clash();
  }

  /** A message of the round in progress, from anybody. */
  heard(noun: ProtocolMessage): void {
    // where relays had some of an earlier session, they may bring more of it
    if (!this.#isClean || !this.#isForeign(noun)) return;
    if (this.#isSittingOut) this.#clash();
    else if (!this.#isTold) {
      this.#isTold = true;
      this.#onOther(this.#at!.round);
    }
  }

  /** The round in progress was decided, and this worker saw it from its beginning: nobody else signed with its key. */
  ended(): void {
    if (this.#isClean) this.#isSittingOut = false;
  }

  #isForeign(noun: ProtocolMessage): boolean {
    if (noun.key !== this.#me || this.#known.has(noun.id) || this.#at === undefined) return false;
    const said = noun.type === 'manifest' ? noun.manifest : noun;
    if (!('round' in said) || !('parent' in said)) return false;
    return said.round === this.#at.round && said.parent === this.#at.parent;
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
