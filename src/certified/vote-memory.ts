/** What a worker knows from before it was started: what it signed in the round in progress, and how long contributions took to arrive. */
import type { Control } from '../network/wire/control.ts';
import type { EventId, WorkerId } from '../run/ids.ts';
import { idOf } from '../worker/state.ts';
import type { Delays } from './driven-round.ts';
import type { CertifiedState } from './events.ts';
import type { ProtocolMessage } from './evidence.ts';
import type { EvidenceStore } from './evidence-store.ts';
import type { Chain } from './history.ts';
import type { Entry, Journal } from './journal.ts';

/** What is known of what this worker signed in a round before it was started. */
export interface Memory {
  readonly entry: Entry | undefined;
  /** The first recovery epoch that it may vote in: in those before it may have signed something that is not on disk. */
  readonly voteFrom: number;
  /** Nothing was on disk, of any round. */
  readonly isEmpty: boolean;
}

interface Ports {
  readonly me: WorkerId;
  readonly journal: Pick<Journal, 'load'>;
  readonly control: Pick<Control<ProtocolMessage>, 'look'>;
  readonly evidence: EvidenceStore;
  readonly signal: AbortSignal;
}

/** Rounds that the adaptive deadline learns from. */
const LEARNT_ROUNDS = 3;

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

  /** What this worker signed in a round. Who comes back looks what relays have of it, and with nothing on disk does not vote at first. */
  async of({ round, parent }: Chain, isReturning: boolean): Promise<Memory> {
    const entry = await this.#entry;
    if (this.#arrivals.length === 0 && entry) this.#arrivals = [entry.delays];
    if (isReturning) await this.#look(round);
    if (entry) {
      const isOfRound = entry.round === round && entry.parent === parent;
      return { entry: isOfRound ? entry : undefined, voteFrom: 0, isEmpty: false };
    }
    if (!isReturning) return { entry: undefined, voteFrom: 0, isEmpty: true };
    const { me, evidence } = this.#ports;
    const isOwn = (noun: ProtocolMessage) =>
      noun.key === me && 'round' in noun && noun.round === round;
    const hasForgotten = round > 0 || [...evidence.nouns()].some(isOwn);
    return { entry, voteFrom: hasForgotten ? 1 : 0, isEmpty: true };
  }

  /** Until all relays that can be reached have answered, or most of them and a little more time. */
  async #look(round: number): Promise<void> {
    const { control, evidence, me, signal } = this.#ports;
    await control.look(round, { take: (noun) => void evidence.add(noun, noun.key === me) });
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

/** Contributions that are on disk. */
export const sentBefore = ({
  sent,
  pending,
  contributed = [],
}: CertifiedState): readonly EventId[] =>
  [sent, pending, ...contributed.map((each) => each.sent)].flatMap((each) =>
    each ? [idOf(each)] : [],
  );

export const ownIn = (entry: Entry | undefined): readonly EventId[] =>
  Object.values(entry?.own ?? {}).map(({ id }) => id);
