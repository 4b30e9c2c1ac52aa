/** How a worker took part in the rounds of this session, and whether it plays the next one. */
import type { Outcome } from '../run/outcome.ts';
import type { RunSpec } from '../run/run-spec.ts';

/** One round. */
export interface Attended {
  /** It was over before this worker looked. */
  readonly isOver: boolean;
  /** It was over before this worker had trained. */
  readonly isLate: boolean;
}

export class Attendance {
  /** Whether others may have decided rounds that this worker does not know of. */
  isBehind = true;
  /** It sits this round out, to begin the next one together with the others. */
  isResting = false;
  /** Until it played a round since it was started. */
  isReturning = true;
  #mayRest = true;
  readonly #spec: RunSpec;

  constructor(spec: RunSpec) {
    this.#spec = spec;
  }

  /**
   * A round that was over when this worker looked, or before it had trained, may not be the last such one. Who began in the middle of a
   * round would be late for ever: it rests once. Who is late again is slow, and goes on.
   */
  note({ isOver, isLate }: Attended, { result }: Outcome): void {
    this.isBehind = isOver || isLate;
    this.isReturning &&= isOver;
    const hasRested = this.isResting;
    this.isResting = isLate && this.#mayRest && result === 'final' && this.#spec.late === 'discard';
    if (isLate) this.#mayRest = false;
    else if (!isOver && !hasRested) this.#mayRest = true;
  }
}
