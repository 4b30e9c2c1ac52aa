/** Progress events of a worker: plain data, one line of JSON each, in order. */

import type { CompletionReason } from '../run/aggregation.ts';
import type { RejectReason, SharedMeasure } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

/** Progress of an inner phase. */
export interface TrainProgress {
  readonly step: number;
  readonly steps: number;
  readonly loss: number;
  /** Tokens (text) or examples (regression) per second. */
  readonly tokensPerSecond: number;
}

/** Summary of a finished round, as stored in the run's folder and displayed. */
export interface RoundSummary extends SharedMeasure {
  /** Round index, from 0. */
  readonly index: number;
  readonly base: Digest;
  /** Digest of the shared state after the round; in a run with tiers that of its first slice. */
  readonly digest: Digest;
  /** Digests of the other local slices; of all local slices if the state is certified. */
  readonly outer?: readonly Digest[];
  /** Workers whose contributions were averaged, ascending. */
  readonly accepted: readonly WorkerId[];
  readonly refused: readonly { readonly reason: RejectReason; readonly worker?: WorkerId }[];
  readonly completionReason: CompletionReason;
  /** Mean training loss of this worker over the round's inner steps. */
  readonly trainingLoss: number;
  /** Largest payload of an accepted contribution, in bytes. */
  readonly payloadBytes: number;
  /** Largest event of an accepted contribution, in bytes of JSON. */
  readonly eventBytes: number;
  /** ||residual||^2 / ||delta + previous residual||^2; rotated chunks leave noise, which may exceed 1. */
  readonly residualShare: number;
  readonly secondsTraining: number;
  readonly secondsWaiting: number;
  readonly seconds: number;
}

/** The tier that a worker trains, in a run with tiers. */
export interface WorkerTier {
  /** Tier of this worker; 0 is the full model. */
  readonly own: number;
  /** Smallest tier of the run. */
  readonly of: number;
  /** Width of its feed-forward layers, and of those of the full model. */
  readonly width: number;
  readonly wholeWidth: number;
  /** Share of the full model's parameters. */
  readonly share: number;
  /** Whether a slice of the base model was loaded, or part of the full model is trained. */
  readonly strategy: 'sliced' | 'universal';
}

/** Events that a worker reports, in order. */
export type WorkerEvent =
  | {
      readonly type: 'hello';
      readonly worker: WorkerId;
      readonly run: string;
      readonly task: string;
      readonly parameters: number;
      readonly device: string;
      readonly threads: number;
      /** Total rounds, and the first round of this session. */
      readonly rounds: number;
      readonly round: number;
      readonly innerSteps: number;
      readonly digest: Digest;
      readonly lossBefore: number;
      /** In a run with tiers. */
      readonly tier?: WorkerTier;
    }
  | {
      readonly type: 'notice';
      readonly message: string;
      /**
       * What ends the notice: the next one about the relays or an update that a relay takes; for progress of the start
       * the `hello` event.
       */
      readonly about?: 'relays' | 'start';
    }
  | {
      readonly type: 'waiting';
      readonly what: 'workers' | 'gradients';
      readonly round: number;
      readonly have: number;
      /** Absent if no fixed number ends the wait. */
      readonly want?: number;
      readonly missing: readonly WorkerId[];
    }
  | ({ readonly type: 'progress'; readonly round: number } & TrainProgress)
  | {
      readonly type: 'trained';
      readonly round: number;
      readonly loss: number;
      readonly tokens: number;
      readonly seconds: number;
    }
  | {
      /** Progress of payload chunks, sent to relays or received from peers. */
      readonly type: 'transfer';
      readonly way: 'out' | 'in';
      readonly round: number;
      readonly have: number;
      readonly of: number;
    }
  | {
      readonly type: 'published';
      readonly round: number;
      readonly payloadBytes: number;
      readonly eventBytes: number;
      readonly relays: readonly string[];
      readonly failed: readonly { readonly relay: string; readonly message: string }[];
    }
  | {
      /**
       * State of another worker: in a round (`training`), its contribution has arrived (`sent`), or it is silent
       * (`away`).
       */
      readonly type: 'peer';
      readonly worker: WorkerId;
      readonly state: 'training' | 'sent' | 'away';
      /** What people call it, if it says so. */
      readonly name?: string;
      readonly round: number;
      /** Digest of the state that it starts that round from, if it reports one. */
      readonly digest?: Digest;
      /** Bytes of the events that carry its contribution. */
      readonly eventBytes?: number;
    }
  | {
      readonly type: 'refused';
      readonly round: number;
      readonly worker?: WorkerId;
      readonly reason: RejectReason;
      readonly detail: string;
    }
  | ({ readonly type: 'round' } & RoundSummary)
  | {
      readonly type: 'divergence';
      readonly round: number;
      readonly peer: WorkerId;
      readonly ours: Digest;
      readonly theirs: Digest;
      /** First worker by key that one side counted and the other did not. */
      readonly firstDiffering?: WorkerId;
    }
  | ({
      readonly type: 'done';
      readonly digest: Digest;
      readonly rounds: number;
      readonly lossBefore: number;
      readonly lossAfter: number;
      readonly tokens: number;
      readonly bytesSent: number;
      readonly bytesReceived: number;
      readonly secondsTraining: number;
      readonly secondsWaiting: number;
      /** Peak memory of the process; absent if the platform does not report it. */
      readonly peakBytes?: number;
    } & Omit<SharedMeasure, 'sample'>)
  | {
      readonly type: 'failed';
      readonly code: string;
      readonly message: string;
      readonly hint?: string;
    };
