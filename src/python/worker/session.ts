/** What a session in the Python reference's profile adds to the core's session: history, late gradients, records. */
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

/** Records of a run that the Python reference keeps in its checkpoints. */
export interface History {
  /** Round records, oldest first, including those of earlier sessions. */
  readonly records: readonly RoundRecord[];
  readonly late: readonly LateGradient[];
  readonly reconciliations: readonly Reconciliation[];
  /** Date of the newest gradient known, in Unix seconds; undefined before the first round. */
  readonly lateSince: number | undefined;
  /** Late gradients applied before the round in progress. */
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
  /** For summaries and checkpoints; absent if none are kept. */
  readonly history?: History | undefined;
}

/** How late gradients are applied. */
export interface LateRule {
  /** `deferred` applies late gradients before the next round, `discard` only records them. */
  readonly strategy: 'deferred' | 'discard';
  readonly learningRate: number;
  readonly momentum: number;
  /** Whether the step over late gradients changes the outer momentum, as in the Python reference. */
  readonly advancesMomentum: boolean;
  /** Maximum weight of a gradient, in examples. */
  readonly weightCap: number;
}

/** Settings of a session that keeps the Python reference's records. */
export interface Reference {
  /**
   * Behaves like the Python reference even where that is unsafe, so that mixed fleets end in the same state (see
   * docs/migrating-from-python.md).
   */
  readonly isCompatible: boolean;
  /** Number of examples of this worker's dataset, for its heartbeats. */
  readonly examples: number;
  readonly late: LateRule;
  /** Time limit for relays to accept a gradient; a round may be shorter. */
  readonly publishMs: number;
  /** Time limit of the query for late gradients. */
  readonly lateWaitMs: number;
  /** Limits of the payloads of late gradients. */
  readonly limits: ContainerLimits;
  /** Stores the trace of a completed round. */
  keep(trace: RoundTrace): Promise<void>;
}

/** A session whose wire speaks profile nostrain/0; with `reference` it also keeps the Python reference's records. */
export interface PythonSession extends Session {
  readonly events: PythonEvents;
  readonly reference?: Reference | undefined;
}

/** A session that keeps records, with the notes of the round in progress. */
export interface RecordedSession extends PythonSession {
  readonly reference: Reference;
  readonly notes: Notes;
}

/** Events and results of the round in progress. */
export interface Notes {
  heartbeat?: Sending;
  gradient?: Sending;
  /** Parameters after the inner steps; absent in a round that an earlier process began. */
  local?: { readonly params: Vector };
  mean?: Mean;
  /** Late gradients that the query before the round returned. */
  late?: readonly LateGradient[];
}

/** The complete trace of a round, for artifacts. */
export interface RoundTrace {
  /** State before and after the round. */
  readonly before: PythonState;
  readonly after: PythonState;
  readonly local: Params | undefined;
  readonly mean: Mean | undefined;
  /** Gradient events of the cohort. */
  readonly cohort: readonly SignedEvent[];
  readonly late: readonly LateGradient[] | undefined;
  readonly heartbeat: Tracked | undefined;
  readonly gradient: Tracked | undefined;
  readonly checkpoint:
    | (Omit<CheckpointSent, 'sending'> & { readonly tracked?: Tracked | undefined })
    | undefined;
}

/** Wraps ports so that training results and sent events are noted for the record of the round. */
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
