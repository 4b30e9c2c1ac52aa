/** What a worker of a certified run reports beyond any worker's events, and the state and session it plays with. */
import type { Digest, WorkerId } from '../run/ids.ts';
import type { RoundSummary, WorkerEvent } from '../worker/events.ts';
import type { Ports, Session } from '../worker/ports.ts';
import type { Sent, WorkerState } from '../worker/state.ts';
import type { ChainHead, Past } from './chain-state.ts';

/** What a certificate says of a round, for people. */
export interface CertifiedRound {
  readonly result: 'final' | 'void';
  readonly attempt: number;
  readonly view: number;
  /** Root of the model after the round. */
  readonly root: Digest;
  /** Whose commits certify it, ascending, and of how many. */
  readonly signers: readonly WorkerId[];
  readonly of: number;
  readonly rejected: readonly { readonly worker: WorkerId; readonly reason: string }[];
  /** Who left the roster for breaking the rules. */
  readonly faults: readonly WorkerId[];
  readonly joined: readonly WorkerId[];
  /** Who left the roster by its own wish. */
  readonly left: readonly WorkerId[];
  /** Whose work of the round before counts in this one. */
  readonly late: readonly WorkerId[];
}

/** A round that a committee ended. */
export interface CertifiedSummary extends RoundSummary {
  /** Absent in rounds of before the run was certified. */
  readonly certified?: CertifiedRound;
}

export type CertifiedEvent =
  | ({ readonly type: 'round' } & CertifiedSummary)
  | {
      /** A view of a certified round ended without a certificate. */
      readonly type: 'stalled';
      readonly round: number;
      readonly attempt: number;
      readonly view: number;
      /** Who was not heard of in it. */
      readonly missing: readonly WorkerId[];
    }
  | {
      /** Rounds in a row that ended without counting anything: three or more. */
      readonly type: 'voids';
      /** The last of them. */
      readonly round: number;
      readonly count: number;
    }
  | {
      /** A worker is proven to have broken the rules. */
      readonly type: 'fault';
      readonly round: number;
      readonly worker: WorkerId;
      readonly kind: 'equivocation' | 'broken-lock';
    }
  | {
      /** Two outcomes of one round have a certificate each. */
      readonly type: 'conflict';
      readonly round: number;
      readonly expected: Digest;
      readonly got: Digest;
    }
  | {
      /** Relays have another branch of the run that is better, or may be; this worker stays where it is. */
      readonly type: 'fork';
      readonly round: number;
      /** The first round in which they differ, and how many rounds going over would undo. */
      readonly fork: number;
      readonly depth: number;
      /** The last outcome of each. */
      readonly ours: Digest;
      readonly theirs: Digest;
      readonly obstacle: 'too-deep' | 'ours-unseen' | 'not-whole';
    }
  | {
      /** This worker went over to a better branch. */
      readonly type: 'switched';
      /** The round it plays next. */
      readonly round: number;
      readonly fork: number;
      readonly depth: number;
      readonly ours: Digest;
      readonly theirs: Digest;
    };

/** Everything that a worker of any run reports. */
export type RunEvent = Exclude<WorkerEvent, { readonly type: 'round' }> | CertifiedEvent;

/** The state of a worker in a certified run. */
export interface CertifiedState extends WorkerState {
  readonly rounds: readonly CertifiedSummary[];
  /** The last certified outcome it knows, and what follows from it. */
  readonly head: ChainHead;
  /** The gradient of the round before, where the outcome of `round` may still list it: what it does not list comes back. */
  readonly pending?: Sent | undefined;
  /** What this worker sent in its last certified rounds, oldest first. */
  readonly contributed?: readonly Contributed[] | undefined;
}

/** What was sent for a certified round that is over. */
export interface Contributed {
  readonly sent: Sent;
  /** The round it was made for. */
  readonly past: Past;
  /** Whether it left the residual: it counted, was refused for a reason, or may still be listed late. */
  readonly isOut: boolean;
}

export interface CertifiedPorts extends Ports {
  report(event: RunEvent): void;
}

export interface CertifiedSession extends Session {
  readonly ports: CertifiedPorts;
}
