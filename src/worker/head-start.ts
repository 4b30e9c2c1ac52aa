/**
 * Inner steps of the next round that a worker takes while the outcome of this one is on its way: from its own end of the last phase, in memory
 * alone. What they moved is added to where the phase begins once that is known, and the phase takes the steps that are left.
 */
import type { Vector } from '../tensor/params.ts';
import type { HalfPhase, Session, TrainingResult, TrainTask } from './ports.ts';
import { idOf, type SealedState, type WorkerState } from './state.ts';

/** Steps that were taken before it was known where their phase begins. */
export interface Ahead {
  /** Where they began instead. */
  readonly from: Vector;
  readonly trained: TrainingResult;
}

/** The phase that begins there, after the steps that were taken ahead of it. */
export function phaseAfter(start: Vector, { from, trained }: Ahead): HalfPhase {
  const { params, moments, losses, seconds, steps = losses.length } = trained;
  const moved = Float32Array.from(start, (value, i) => value + (params[i]! - from[i]!));
  // the last of the moments counts steps, and the phase counts its own
  const vectors = [moved, ...moments.slice(0, -1)];
  return { done: steps, vectors, losses: Float32Array.from(losses), seconds };
}

interface Under {
  readonly round: number;
  /** Event of the gradient that was sealed before. */
  readonly after: string;
  readonly from: Vector;
  /** Undefined until its moment comes. */
  trained: Promise<TrainingResult> | undefined;
}

/** The head start of a session: at most one is under way. */
export class HeadStart {
  readonly #session: Session;
  #under: Under | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Takes steps of the round after that of a sealed gradient, from a moment on until `end`. */
  begin({ sent }: SealedState<WorkerState>, task: TrainTask, moment: Promise<unknown>): void {
    const { ports, signal } = this.#session;
    const { params: from, round } = task;
    const under: Under = { round, after: idOf(sent), from, trained: undefined };
    this.#under = under;
    const room = (done: number) => (this.#under === under ? (task.room?.(done) ?? Infinity) : 0);
    void moment.then(() => {
      if (this.#under !== under) return;
      under.trained = ports.trainer.train({ ...task, room }, () => undefined, signal);
      under.trained.catch(() => undefined);
    });
  }

  /**
   * Ends it at the next step. What it came to counts where the round follows from the gradient that was sealed before: not where the state was
   * replaced. Where it failed it came to nothing, and the phase that begins without it says why.
   */
  async end({ round, lastSent }: WorkerState): Promise<Ahead | undefined> {
    const under = this.#under;
    if (!under) return undefined;
    this.#under = undefined;
    const trained = await under.trained?.catch(() => undefined);
    const isOfThis = under.round === round && under.after === lastSent;
    return trained && isOfThis ? { from: under.from, trained } : undefined;
  }
}
