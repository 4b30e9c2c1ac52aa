/** What a worker knows from before it was started: what it signed in the round in progress, and how long contributions took to arrive. */
import type { Clock } from '../base/clock.ts';
import type { Control } from '../network/wire/control.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Delays } from './driven-round.ts';
import type { ProtocolMessage } from './evidence.ts';
import type { EvidenceStore } from './evidence-store.ts';
import type { Chain } from './history.ts';
import type { Entry, Journal } from './journal.ts';

/** What is known of what this worker signed in a round before it was started. */
export interface Memory {
  readonly entry: Entry | undefined;
  /** The first recovery epoch that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
}

interface Ports {
  readonly me: WorkerId;
  readonly journal: Pick<Journal, 'load'>;
  readonly control: Pick<Control<ProtocolMessage>, 'listen'>;
  readonly evidence: EvidenceStore;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Rounds that the adaptive deadline learns from. */
const LEARNT_ROUNDS = 3;
/** How long relays may take to bring what this worker signed before. */
const LOOK_MS = 5000;

export class VoteMemory {
  readonly delays: Delays;
  readonly #ports: Ports;
  readonly #entry: Promise<Entry | undefined>;
  /** How long contributions took, round by round. */
  #arrivals: readonly (readonly number[])[] = [];

  constructor(ports: Ports) {
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

  /** What this worker signed in a round. Who comes back with nothing on disk looks what relays have of it. */
  async of({ round, parent }: Chain, isReturning: boolean): Promise<Memory> {
    const entry = await this.#entry;
    if (this.#arrivals.length === 0 && entry) this.#arrivals = [entry.delays];
    if (entry) {
      const isOfRound = entry.round === round && entry.parent === parent;
      return { entry: isOfRound ? entry : undefined, voteFrom: 0 };
    }
    if (!isReturning) return { entry: undefined, voteFrom: 0 };
    await this.#look(round);
    const { me, evidence } = this.#ports;
    const isOwn = (noun: ProtocolMessage) =>
      noun.key === me && 'round' in noun && noun.round === round;
    const hasForgotten = round > 0 || [...evidence.nouns()].some(isOwn);
    return { entry, voteFrom: hasForgotten ? 1 : 0 };
  }

  async #look(round: number): Promise<void> {
    const { clock, control, evidence, signal } = this.#ports;
    const looked = new AbortController();
    const listening = control.listen(round, {
      take: (noun) => void evidence.add(noun, noun.key === this.#ports.me),
      onCaughtUp: () => looked.abort(),
    });
    const either = AbortSignal.any([signal, looked.signal]);
    if (!listening.caughtUp) await clock.sleep(LOOK_MS, either).catch(() => undefined);
    listening.close();
    signal.throwIfAborted();
  }
}
