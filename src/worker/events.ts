/** Progress events of a worker: plain data, one line of JSON each, in the order things happened. */

import type { CompletionReason } from '../run/aggregation.ts';
import type { RejectReason } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

/** One finished round, as kept in the run's folder and shown to people. */
export interface RoundSummary {
  /** From 0. */
  readonly index: number;
  readonly base: Digest;
  /** Of the shared state after the round, in a run with tiers of its first slice. */
  readonly digest: Digest;
  /** Of the other slices that this worker has; of all slices of this worker where the state is certified. */
  readonly outer?: readonly Digest[];
  /** Whose contributions were averaged, ascending. */
  readonly accepted: readonly WorkerId[];
  readonly refused: readonly { readonly reason: RejectReason; readonly worker?: WorkerId }[];
  readonly completionReason: CompletionReason;
  /** Mean training loss of this worker over the round's inner steps. */
  readonly trainingLoss: number;
  /** Loss of the shared parameters on a slice no worker trains on; absent where not evaluated. */
  readonly validationLoss?: number;
  /** The same per byte of text, in bits: models with other tokenizers compare. */
  readonly bitsPerByte?: number;
  /** The share of that slice that the shared parameters have right; of models that tell classes. */
  readonly accuracy?: number;
  /** Text made by the shared parameters; absent for models that do not write. */
  readonly sample?: string;
  /** The largest raw payload any accepted worker sent. */
  readonly payloadBytes: number;
  /** The largest event JSON carrying it. */
  readonly eventBytes: number;
  /** ||residual||^2 / ||delta + residual before||^2; of rotated chunks their noise beside the delta, maybe above 1. */
  readonly residualShare: number;
  readonly secondsTraining: number;
  readonly secondsWaiting: number;
  readonly seconds: number;
}

/** What a worker trains of a model with tiers. */
export interface WorkerTier {
  /** 0 is the full model. */
  readonly own: number;
  /** The smallest one of the run. */
  readonly of: number;
  /** Of its feed-forward layers, and of those of the full model. */
  readonly width: number;
  readonly wholeWidth: number;
  /** Of the full model's parameters. */
  readonly share: number;
  /** A slice of the base was loaded, or a part of the full model. */
  readonly strategy: 'sliced' | 'universal';
}

/** What a worker reports: plain data, in the order things happen. */
export type WorkerEvent =
  | {
      readonly type: 'hello';
      readonly worker: WorkerId;
      readonly run: string;
      readonly task: string;
      readonly parameters: number;
      readonly device: string;
      readonly threads: number;
      /** Rounds in all, and the one this session starts with. */
      readonly rounds: number;
      readonly round: number;
      readonly innerSteps: number;
      readonly digest: Digest;
      readonly lossBefore: number;
      /** In a run with tiers. */
      readonly tier?: WorkerTier;
    }
  | { readonly type: 'notice'; readonly message: string }
  | {
      readonly type: 'waiting';
      readonly what: 'workers' | 'gradients';
      readonly round: number;
      readonly have: number;
      /** Absent when no number closes the wait. */
      readonly want?: number;
      readonly missing: readonly WorkerId[];
    }
  | {
      readonly type: 'progress';
      readonly round: number;
      readonly step: number;
      readonly steps: number;
      readonly loss: number;
      /** Tokens (text) or examples (regression) per second. */
      readonly tokensPerSecond: number;
    }
  | {
      readonly type: 'trained';
      readonly round: number;
      readonly loss: number;
      readonly tokens: number;
      readonly seconds: number;
    }
  | {
      /** A payload in chunks goes out to the relays, or those of peers come in. */
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
      /** Another worker: in a round (`training`), its gradient is here (`sent`), or it is silent (`away`). */
      readonly type: 'peer';
      readonly worker: WorkerId;
      readonly state: 'training' | 'sent' | 'away';
      readonly round: number;
      /** What it starts that round from, where it says so. */
      readonly digest?: Digest;
      /** All event JSON that carries its gradient. */
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
      /** First worker, by key, that one side counted and the other did not. */
      readonly firstDiffering?: WorkerId;
    }
  | {
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
      /** The most memory that its process had; absent where no machine tells. */
      readonly peakBytes?: number;
      readonly validationLoss?: number;
      readonly bitsPerByte?: number;
      readonly accuracy?: number;
    }
  | {
      readonly type: 'failed';
      readonly code: string;
      readonly message: string;
      readonly hint?: string;
    };
