/** Everything a worker must not lose: written together after every phase that others could have seen. */

import type { Sealed } from '../network/wire/wire.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Params, Vector } from '../tensor/params.ts';
import type { RoundSummary } from './events.ts';

/** The state of any worker. A strategy may add members: the loop carries them along, the store writes them. */
export interface WorkerState {
  /** The round to play next, or the one in progress when `sent` is there. */
  readonly round: number;
  /** The shared parameters at the start of `round`. */
  readonly params: Params;
  readonly momentum: Vector;
  /** Typical size of contributions to the last rounds, oldest first: what the next ones are bounded by. */
  readonly norms: readonly number[];
  /** The same of every slice but the first, in a run with tiers. */
  readonly outerNorms?: readonly (readonly number[])[];
  /** Inner optimizer state, carried across rounds. */
  readonly moments: readonly Float32Array[];
  /** What this worker has learned and not yet sent (error feedback). */
  readonly residual: Float64Array;
  /** The whole delta that the gradient in `sent` was packed from, where the strategy may take some of it back. */
  readonly unpacked?: Float64Array | undefined;
  /** Whose contributions made `params`; absent before the first outer step. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** Under `async`: the newest round of each worker whose gradient was already used. */
  readonly folded: Readonly<Record<WorkerId, number>>;
  /** The last rounds that this worker finished, oldest first. */
  readonly rounds: readonly RoundSummary[];
  /** Of all that it finished: seconds of training, and of waiting. */
  readonly seconds: { readonly training: number; readonly waiting: number };
  readonly lossBefore: number;
  readonly tokens: number;
  /** Id of the event of this worker's last gradient; undefined before its first. */
  readonly lastSent: string | undefined;
  /** The gradient of `round`, saved before it is sent: a restart sends the same bytes. */
  readonly sent: Sent | undefined;
}

/** A signed gradient of this worker, with what its summary tells. */
export interface Sent extends Sealed {
  /** Among whom the parameters were divided. */
  readonly roster: readonly WorkerId[];
  readonly trainingLoss: number;
  readonly payloadBytes: number;
  readonly secondsTraining: number;
  /** Energy of the rounding error divided by that of the delta; above 1 if rotated chunks are mostly noise. */
  readonly residualShare: number;
}

export type SealedState<S extends WorkerState> = S & { readonly sent: Sent };

/** Rounds that a state lists: it is written twice in each, and a run may have any number of them. */
const MOST_ROUNDS = 32;

/** What a state says of its rounds, with one more that is finished. */
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

/** The summary of the round before, where this worker finished it. */
export const measuredBefore = ({ round, rounds }: WorkerState): RoundSummary | undefined =>
  rounds.findLast(({ index }) => index === round - 1);

export const isSealed = <S extends WorkerState>(state: S): state is SealedState<S> =>
  state.sent !== undefined;

export function assertSealed<S extends WorkerState>(state: S): SealedState<S> {
  if (isSealed(state)) return state;
  throw new TypeError('the round has no gradient of this worker');
}

export const idOf = ({ event }: Sent): string => event.id;

/** The state a run starts from. */
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
