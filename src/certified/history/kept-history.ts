/**
 * What is kept of a run's past while it is read from relays: events that members signed, in bounded number and bytes for each key and round,
 * for each key and in all. Who floods pushes out what it signed itself, which others hold copies of, and nothing else.
 */
import { FairStore } from '../../base/fair-store.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';

/** Bytes of events, as they are in memory about. */
export interface HistoryLimits {
  /** Of one key in one round; what is of no round counts as one more. */
  readonly perRound: number;
  readonly perKey: number;
  readonly inAll: number;
}

/** An outcome has 4 MiB at most, and a third more in chunks; a proposer may have had to make two. */
const PER_ROUND = 16 << 20;

/** What decides a run. */
export const decisionLimits: HistoryLimits = {
  perRound: PER_ROUND,
  perKey: 256 << 20,
  inAll: 1 << 30,
};

/** The same with contributions, of which a round may count two of a key: its own and the one of the round before. */
export const archiveLimits = (payloadBytes: number): HistoryLimits => ({
  perRound: PER_ROUND + 4 * payloadBytes,
  perKey: 1 << 30,
  inAll: 4 * 2 ** 30,
});

/** Where nobody knows whose events count. */
export const strangerLimits: HistoryLimits = {
  perRound: 1 << 20,
  perKey: 16 << 20,
  inAll: 64 << 20,
};

/** Bodies and payloads that one key may name in one round, whatever their size. */
const NAMED_PER_ROUND = 16;
/** What an event takes beside its texts. */
const EVENT_BYTES = 512;

/** Who answers for bytes, and for which round: who signed an event or brought it; a table of stake for itself. */
export interface Charge {
  readonly key: WorkerId | Digest;
  /** -1 for what is of the whole run. */
  readonly round: number;
}

export class KeptHistory {
  readonly #run: Digest;
  readonly #rounds: number;
  readonly #limits: HistoryLimits;
  readonly #store: FairStore<SignedEvent>;
  readonly #bytes = new Map<string, number>();
  readonly #named = new Map<string, number>();
  #left = 0;

  /** `rounds` is how many the run has: nothing of later ones is kept. */
  constructor(run: Digest, rounds: number, limits: HistoryLimits) {
    this.#run = run;
    this.#rounds = rounds;
    this.#limits = limits;
    this.#store = new FairStore({ perOwner: limits.perKey, inAll: limits.inAll });
  }

  /** What there was no room for. */
  get left(): number {
    return this.#left;
  }

  get size(): number {
    return this.#store.size;
  }

  /** Bytes of all that is kept. */
  get bytes(): number {
    return this.#store.bytes;
  }

  has(id: string): boolean {
    return this.#store.has(id);
  }

  events(): readonly SignedEvent[] {
    return [...this.#store.entries()].map(([, { value }]) => value);
  }

  /** Keeps an event at the cost of its author unless somebody else answers for it; false where it is here, or finds no room. */
  keep(event: SignedEvent, charge: Charge = this.chargeOf(event)): boolean {
    const { key, round } = charge;
    if (this.#store.has(event.id) || round >= this.#rounds) return false;
    const bytes = bytesOf(event);
    const isFull = !this.#spend(this.#bytes, charge, bytes, this.#limits.perRound);
    const isKept = !isFull && this.#store.set(event.id, { value: event, owner: key, bytes });
    if (!isKept) this.#left += 1;
    return isKept;
  }

  /** Whether a key may name one more body in this round. */
  mayName(charge: Charge): boolean {
    return this.#spend(this.#named, charge, 1, NAMED_PER_ROUND);
  }

  /** Its author, and the round that its tags name. */
  chargeOf(event: SignedEvent): Charge {
    return { key: event.pubkey, round: roundIn(event, this.#run) ?? -1 };
  }

  #spend(spent: Map<string, number>, { key, round }: Charge, more: number, most: number): boolean {
    const place = `${key}/${round}`;
    const sum = (spent.get(place) ?? 0) + more;
    if (sum > most) return false;
    spent.set(place, sum);
    return true;
  }
}

/** The round of a run that an event says it is of. */
function roundIn({ tags }: SignedEvent, run: Digest): number | undefined {
  const said = tags.find(([name, value = '']) => name === 's' && value.startsWith(`${run}/`))?.[1];
  const round = said === undefined ? Number.NaN : Number(said.slice(run.length + 1));
  return Number.isSafeInteger(round) && round >= 0 ? round : undefined;
}

const bytesOf = ({ content, tags }: SignedEvent): number =>
  tags.flat().reduce((sum, text) => sum + text.length, EVENT_BYTES + content.length);
