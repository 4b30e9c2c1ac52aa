/** How a worker takes part in a certified run: whether it trains in the next round, asks to be in the roster, and is out of it. */
import type { Control } from '../network/wire/control.ts';
import type { Digest, EventId, WorkerId } from '../run/ids.ts';
import type { Outcome } from '../run/outcome.ts';
import type { RunSpec } from '../run/run-spec.ts';
import type { ProtocolMessage } from './evidence.ts';
import type { Certified } from './history.ts';
import type { Reporter } from './reporter.ts';

/** One round. */
export interface Attended {
  /** It was over before this worker looked. */
  readonly isOver: boolean;
  /** It was over before this worker had trained. */
  readonly isLate: boolean;
}

interface Ports {
  readonly spec: RunSpec;
  readonly me: WorkerId;
  /** End of this worker's reveal chain. */
  readonly tip: Digest;
  readonly control: Pick<Control<ProtocolMessage>, 'sign' | 'send'>;
  readonly reporter: Reporter;
  /** Takes in this worker's own message. */
  take(noun: ProtocolMessage): void;
}

export class Attendance {
  /** Whether others may have decided rounds that this worker does not know of. */
  isBehind = true;
  /** It sits this round out, to begin the next one together with the others. */
  isResting = false;
  /** Until it played a round since it was started. */
  isReturning = true;
  /** An outcome of this session lists its leave. */
  hasLeft = false;
  /** Its last contribution that relays took in this session. */
  published: EventId | undefined;
  #mayRest = true;
  #announced: Digest | undefined;
  readonly #ports: Ports;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  /**
   * A round that was over when this worker looked, or before it had trained, may not be the last such one. Who began in the middle of a
   * round would be late for ever: it skips one round after a late finish to resynchronize; it skips only once.
   */
  note({ isOver, isLate }: Attended, { result }: Outcome): void {
    const { late } = this.#ports.spec;
    this.isBehind = isOver || isLate;
    this.isReturning &&= isOver;
    const hasRested = this.isResting;
    this.isResting = isLate && this.#mayRest && result === 'final' && late === 'discard';
    if (isLate) this.#mayRest = false;
    else if (!isOver && !hasRested) this.#mayRest = true;
  }

  /** Asks to be in the roster, until an outcome lists it. */
  announce({ run, parent, recent, ledger }: Certified): void {
    const { me, tip, control, take } = this.#ports;
    const known = ledger.members.find(({ key }) => key === me);
    const isIn = known !== undefined && known.tip !== null;
    // who was listed and dropped out again has to ask anew
    if (isIn) this.#announced = undefined;
    const isFresh = this.#announced !== undefined && recent.includes(this.#announced);
    if (isIn || isFresh || ledger.faulted.includes(me)) return;
    this.#announced = parent;
    const { noun, event } = control.sign({ type: 'join', run, after: parent, tip, evidence: '' });
    control.send(event);
    take(noun);
  }

  /** Whether it is out by its own wish. A leave of an earlier session does not end the one that was started to come back. */
  noteLeaves({ round, leaves }: Outcome): void {
    const { me, reporter } = this.#ports;
    if (this.isReturning || !leaves.some(({ key }) => key === me)) return;
    this.hasLeft = true;
    reporter.left(round);
  }
}
