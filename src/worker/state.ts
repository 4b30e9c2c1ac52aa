/** The state of a worker: everything it must not lose, saved together after every phase that others could have seen. */

import type { Sealed } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Params, Vector } from '../tensor/params.ts';
import type { RoundSummary } from './events.ts';

/** State of any worker. Strategies may add members, which the loop passes on and the store saves. */
export interface WorkerState {
  /** Next round to play, or the current one if `sent` is set. */
  readonly round: number;
  /** The shared parameters at the start of `round`. */
  readonly params: Params;
  readonly momentum: Vector;
  /** Typical norms of contributions to recent rounds, oldest first, which bound the next ones. */
  readonly norms: readonly number[];
  /** The same for every slice but the first, in a run with tiers. */
  readonly outerNorms?: readonly (readonly number[])[];
  /** Inner optimizer state, carried across rounds. */
  readonly moments: readonly Float32Array[];
  /** Learned but not yet sent (error feedback). */
  readonly residual: Float64Array;
  /** Full delta that `sent` was packed from, if the strategy may return some of it. */
  readonly unpacked?: Float64Array | undefined;
  /** Workers whose contributions made `params`; absent before the first outer step. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** Under `async`: newest round of each worker whose contribution was used. */
  readonly folded: Readonly<Record<WorkerId, number>>;
  /** Recent finished rounds, oldest first. */
  readonly rounds: readonly RoundSummary[];
  /** Total seconds of training and waiting over all finished rounds. */
  readonly seconds: { readonly training: number; readonly waiting: number };
  readonly lossBefore: number;
  readonly tokens: number;
  /** Event id of this worker's last gradient; undefined before its first. */
  readonly lastSent: string | undefined;
  /** The gradient of `round`, saved before sending, so that a restart sends the same bytes. */
  readonly sent: Sent | undefined;
}

/** A signed gradient of this worker, with data for its round summary. */
export interface Sent extends Sealed {
  /** Workers among whom the chunks were divided. */
  readonly roster: readonly WorkerId[];
  readonly trainingLoss: number;
  readonly payloadBytes: number;
  readonly secondsTraining: number;
  /** Energy of the rounding error divided by that of the delta; above 1 if rotated chunks are mostly noise. */
  readonly residualShare: number;
}

export type SealedState<S extends WorkerState> = S & { readonly sent: Sent };

/** Maximum rounds listed in a state, which is saved twice per round. */
const MOST_ROUNDS = 32;

/** Adds a finished round to a state's list and totals. */
export const withRound = <R extends RoundSummary>(
  { rounds, seconds }: { readonly rounds: readonly R[] } & Pick<WorkerState, 'seconds'>,
  round: R,
) => ({
  rounds: [...rounds, round].slice(-MOST_ROUNDS),
  seconds: {
    training: seconds.training + round.secondsTraining,
    waiting: seconds.waiting + round.secondsWaiting,
  },
});

/** Returns the summary of the previous round, if this worker finished it. */
export const measuredBefore = ({ round, rounds }: WorkerState): RoundSummary | undefined =>
  rounds.findLast(({ index }) => index === round - 1);

export const isSealed = <S extends WorkerState>(state: S): state is SealedState<S> =>
  state.sent !== undefined;

export function assertSealed<S extends WorkerState>(state: S): SealedState<S> {
  if (isSealed(state)) return state;
  throw new TypeError('the round has no gradient of this worker');
}

export const idOf = ({ event }: Sent): string => event.id;

/** Returns the state that a run starts from. */
export function genesis(params: Params, lossBefore: number): WorkerState {
  const zeros =
    params.values instanceof Float32Array
      ? new Float32Array(params.layout.size)
      : new Float64Array(params.layout.size);
  return {
    round: 0,
    params,
    momentum: zeros,
    norms: [],
    moments: [],
    residual: new Float64Array(params.layout.size),
    cohort: undefined,
    folded: {},
    rounds: [],
    seconds: { training: 0, waiting: 0 },
    lossBefore,
    tokens: 0,
    lastSent: undefined,
    sent: undefined,
  };
}
