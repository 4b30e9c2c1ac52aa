/**
 * How long contributions took to arrive in one round, for the round driver: the next deadline follows from it. Late ones count too, though they
 * count for nothing in the round.
 */
import type { RoundContext, RoundState } from '../../consensus/round/round-state.ts';
import { type Beginning, delayOf, delaysIn } from '../../consensus/round/timing.ts';
import type { WorkerId } from '../../run/ids.ts';
import type { ProtocolMessage } from '../decisions/evidence.ts';
import type { Delays } from './journal.ts';

export interface ArrivalOptions {
  readonly context: RoundContext;
  /** When the round began for this worker. */
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

  /** A worker's contribution is here, in this event. */
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

  /** Hands on what is known when the round is decided, once. Who only followed it, and never closed it, saw what had arrived long ago. */
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
