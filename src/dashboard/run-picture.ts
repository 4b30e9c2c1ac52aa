/** Shapes of a certified run that the run page, `nostrain watch` and metrics share: plain data from its events. */
import type { Digest, WorkerId } from '../run/ids.ts';

/** A contribution as its author announced it; losses are its own words. */
export interface SentPicture {
  readonly worker: WorkerId;
  /** Of the payload. */
  readonly bytes: number;
  /** Unix seconds, as signed. */
  readonly at: number;
  /** Mean training loss of its inner steps, where it says so. */
  readonly loss?: number | undefined;
}

export interface RoundPicture {
  readonly round: number;
  readonly result: 'final' | 'void';
  /** Unix seconds by the clock of its proposer. */
  readonly time: number;
  readonly outcome: Digest;
  readonly proposer: WorkerId;
  readonly attempt: number;
  readonly view: number;
  readonly roster: readonly WorkerId[];
  /** By rank. */
  readonly committee: readonly WorkerId[];
  readonly quorum: number;
  /** Whose commits certify it. */
  readonly signers: readonly WorkerId[];
  readonly accepted: readonly { readonly worker: WorkerId; readonly late: boolean }[];
  readonly rejected: readonly { readonly worker: WorkerId; readonly reason: string }[];
  readonly sent: readonly SentPicture[];
  readonly joined: readonly WorkerId[];
  readonly left: readonly WorkerId[];
  readonly faults: readonly { readonly worker: WorkerId; readonly kind: string }[];
  readonly forks: readonly Digest[];
  readonly modelRoot: Digest;
  readonly ledgerRoot: Digest;
  /** Mean of the training losses that contributors report. */
  readonly ownLoss?: number | undefined;
  /** Middle of what workers report of the shared parameters after the round. */
  readonly sharedLoss?: number | undefined;
  readonly bitsPerByte?: number | undefined;
  /** Share of held-out pictures that the shared parameters have right, from 0 to 1. */
  readonly accuracy?: number | undefined;
  /** Text by the shared parameters, as a worker reports it. */
  readonly sample?: string | undefined;
  /** What a check found wrong. */
  readonly problem?: string | undefined;
}

export interface OpenRoundPicture {
  readonly round: number;
  /** Unix seconds of the outcome before; 0 in the first round. */
  readonly since: number;
  readonly attempt: number;
  readonly view: number;
  readonly roster: readonly WorkerId[];
  /** By rank; empty while its draw is not known. */
  readonly committee: readonly WorkerId[];
  readonly quorum: number;
  readonly sent: readonly SentPicture[];
  readonly proposed: readonly { readonly worker: WorkerId; readonly view: number }[];
  readonly prepared: readonly WorkerId[];
  readonly committed: readonly WorkerId[];
  /** Who asks for another committee. */
  readonly viewChanges: readonly WorkerId[];
  /** Seats that have not been heard of in it. */
  readonly missing: readonly WorkerId[];
  /** What a reader lacks to follow it. */
  readonly lacks?: string | undefined;
}

/** One key that has, or had, a part in the run. */
export interface WorkerPicture {
  readonly worker: WorkerId;
  readonly inRoster: boolean;
  readonly hasSeat: boolean;
  /** In whose name it takes part, where that is another key. */
  readonly principal?: WorkerId | undefined;
  readonly isFaulted: boolean;
  readonly joined: number;
  /** The newest of its events, in Unix seconds; 0 without any. */
  readonly lastSign: number;
  /** Its heartbeat is overdue, or it said goodbye. */
  readonly isAway: boolean;
  /** The round its newest event is of. */
  readonly round: number;
  /** Contributions that outcomes list, and those it announced. */
  readonly counted: number;
  readonly sent: number;
  readonly bytes: number;
  readonly device?: string | undefined;
  readonly loss?: number | undefined;
  /** Mean of its last scores, in millionths of a loss; in runs with scores. */
  readonly score?: number | undefined;
  readonly isLow?: boolean | undefined;
}

export interface RelayPicture {
  readonly relay: string;
  readonly state: string;
  readonly events: number;
  readonly refused: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly error: string;
}

export interface RefusalPicture {
  /** Unix seconds. */
  readonly at: number;
  readonly reason: string;
  readonly detail: string;
  readonly worker?: WorkerId | undefined;
  readonly relay?: string | undefined;
}

export interface RunPicture {
  readonly run: Digest;
  readonly name: string;
  readonly model: string;
  readonly tier: string;
  /** Rounds in all. */
  readonly planned: number;
  readonly innerSteps: number;
  readonly seats: number;
  readonly hasText: boolean;
  /** What losses count, in words. */
  readonly lossUnit: string;
  /** Whether contributions say how training went. */
  readonly reports: boolean;
  readonly rounds: readonly RoundPicture[];
  /** Absent once the run is over. */
  readonly open?: OpenRoundPicture | undefined;
  readonly workers: readonly WorkerPicture[];
  readonly relays: readonly RelayPicture[];
  /** The newest last; bounded. */
  readonly refused: readonly RefusalPicture[];
  readonly events: number;
  /** All stored events that relays have are here. */
  readonly isCaughtUp: boolean;
}
