/** Everything a worker must not lose: written together after every phase that others could have seen. */

import type { Past } from '../certified/chain-state.ts';
import type { Standing } from '../certified/standing.ts';
import type { Sealed } from '../network/wire/wire.ts';
import type { History } from '../python/worker/history.ts';
import type { WorkerId } from '../run/ids.ts';
import type { Params, Vector } from '../tensor/params.ts';
import type { RoundSummary } from './events.ts';

export interface WorkerState {
  /** The round to play next, or the one in progress when `sent` is there. */
  readonly round: number;
  /** The shared parameters at the start of `round`. */
  readonly params: Params;
  /** Outer momentum. */
  readonly momentum: Vector;
  /** Inner optimizer state, carried across rounds. */
  readonly moments: readonly Float32Array[];
  /** What this worker has learned and not yet sent (error feedback). */
  readonly residual: Float64Array;
  /** All that the gradient in `sent` was made from, in certified rounds: what is not counted comes back from here. */
  readonly learned?: Float64Array | undefined;
  /** Whose contributions made `params`; absent before the first outer step. */
  readonly cohort: readonly WorkerId[] | undefined;
  /** Under `async`: the newest round of each worker whose gradient was already used. */
  readonly folded: Readonly<Record<WorkerId, number>>;
  readonly rounds: readonly RoundSummary[];
  readonly lossBefore: number;
  readonly tokens: number;
  /** Id of the event of this worker's last gradient; undefined before its first. */
  readonly lastSent: string | undefined;
  /** The gradient of `round`, saved before it is sent: a restart sends the same bytes. */
  readonly sent: Sent | undefined;
  /** For summaries and checkpoints of the reference's profile; absent where nobody keeps them. */
  readonly history?: History | undefined;
  /** The gradient of the round before, where the outcome of `round` may still list it: what it does not list comes back. */
  readonly pending?: Sent | undefined;
  /** What this worker sent in its last certified rounds, oldest first. */
  readonly contributed?: readonly Contributed[] | undefined;
  /** Where this worker stands in a certified run; absent in others. */
  readonly standing?: Standing | undefined;
}

export interface Sent extends Sealed {
  /** Among whom the parameters were divided. */
  readonly roster: readonly WorkerId[];
  readonly trainingLoss: number;
  readonly payloadBytes: number;
  readonly secondsTraining: number;
  readonly residualShare: number;
}

/** What was sent for a certified round that is over. */
export interface Contributed {
  readonly sent: Sent;
  /** The round it was made for. */
  readonly past: Past;
  /** Whether it left the residual: it counted, was refused for a reason, or may still be listed late. */
  readonly isOut: boolean;
}

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
    moments: [],
    residual: new Float64Array(params.layout.size),
    cohort: undefined,
    folded: {},
    rounds: [],
    lossBefore,
    tokens: 0,
    lastSent: undefined,
    sent: undefined,
  };
}
