/** What a run of the Python reference's profile knows beside the core's session: history, late gradients, records. */
import type { Mean } from '../../consensus/aggregate/mean.ts';
import type { SignedEvent } from '../../network/event.ts';
import type { Sending, Tracked } from '../../network/transport/delivery.ts';
import type { Params, Vector } from '../../tensor/params.ts';
import type { Ports, Session } from '../../worker/ports.ts';
import type { WorkerState } from '../../worker/state.ts';
import type { ContainerLimits } from '../codec/container.ts';
import type { CheckpointSent, PythonEvents } from '../wire/profile.ts';
import {
  type LateGradient,
  type LateSummary,
  NOTHING_LATE,
  type Reconciliation,
  type RoundRecord,
} from '../wire/records.ts';

export interface History {
  /** Oldest first, those of earlier sessions included. */
  readonly records: readonly RoundRecord[];
  readonly late: readonly LateGradient[];
  readonly reconciliations: readonly Reconciliation[];
  /** Unix seconds up to which late gradients were looked for; undefined before the first round. */
  readonly lateSince: number | undefined;
  /** What was folded in before the round in progress. */
  readonly folded: LateSummary;
}

export const noHistory: History = {
  records: [],
  late: [],
  reconciliations: [],
  lateSince: undefined,
  folded: NOTHING_LATE,
};

/** The state of a worker that keeps the Python reference's records. */
export interface PythonState extends WorkerState {
  /** For summaries and checkpoints; absent where nobody keeps them. */
  readonly history?: History | undefined;
}

export interface LateRule {
  /** `deferred` folds them in, `discard` only remembers them. */
  readonly strategy: 'deferred' | 'discard';
  readonly learningRate: number;
  readonly momentum: number;
  /** As the Python reference does. */
  readonly advancesMomentum: boolean;
  /** No gradient weighs more examples than this. */
  readonly weightCap: number;
}

export interface Reference {
  /**
   * Does as the Python reference does, also where that is unsafe, so that mixed fleets agree: docs/migrating-from-
   * python.md.
   */
  readonly isCompatible: boolean;
  /** Examples of this worker's dataset, for its heartbeats. */
  readonly examples: number;
  readonly late: LateRule;
  /** How long relays may take to accept a gradient; its rounds may be shorter. */
  readonly publishMs: number;
  /** How long relays may take to tell of late gradients. */
  readonly lateWaitMs: number;
  /** Of the payloads of late gradients. */
  readonly limits: ContainerLimits;
  /** Keeps what a round leaves behind, when it is over. */
  keep(trace: RoundTrace): Promise<void>;
}

/** A session whose wire speaks profile nostrain/0; with `reference` it also keeps the Python reference's records. */
export interface PythonSession extends Session {
  readonly events: PythonEvents;
  readonly reference?: Reference | undefined;
}

/** The same while it is recorded. */
export interface RecordedSession extends PythonSession {
  readonly reference: Reference;
  readonly notes: Notes;
}

/** What happened in the round in progress. */
export interface Notes {
  heartbeat?: Sending;
  gradient?: Sending;
  /** What the worker learned alone; absent in a round that was begun by an earlier process. */
  local?: { readonly params: Vector };
  mean?: Mean;
  /** Late gradients that were found before the round. */
  late?: readonly LateGradient[];
}

/** A round, whole: for artifacts. */
export interface RoundTrace {
  /** What the round started from, and what its cohort made of it. */
  readonly before: PythonState;
  readonly after: PythonState;
  readonly local: Params | undefined;
  readonly mean: Mean | undefined;
  /** Events of the cohort. */
  readonly cohort: readonly SignedEvent[];
  readonly late: readonly LateGradient[] | undefined;
  readonly heartbeat: Tracked | undefined;
  readonly gradient: Tracked | undefined;
  readonly checkpoint:
    | (Omit<CheckpointSent, 'sending'> & { readonly tracked?: Tracked | undefined })
    | undefined;
}

/** The same ports; what training gives and what is sent is noted for the record of the round. */
export function notedPorts(
  ports: Ports,
  { examples }: Pick<Reference, 'examples'>,
  notes: Notes,
): Ports {
  const { trainer, wire } = ports;
  // the getters of the wire stay getters
  const noted: typeof wire = Object.assign(Object.create(wire), {
    send(...args: Parameters<typeof wire.send>) {
      notes.gradient = wire.send(...args);
      return notes.gradient;
    },
    sendHeartbeat(heartbeat: Parameters<typeof wire.sendHeartbeat>[0]) {
      const sending = wire.sendHeartbeat({ ...heartbeat, examples });
      if (!heartbeat.leaving) notes.heartbeat = sending;
      return sending;
    },
  });
  return {
    ...ports,
    wire: noted,
    trainer: {
      ...trainer,
      async train(...args) {
        const trained = await trainer.train(...args);
        notes.local = trained;
        return trained;
      },
    },
  };
}
