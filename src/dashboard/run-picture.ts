/**
 * `RunPicture`: a certified run as plain data, for the run page and `nostrain watch` to display; `picture-of.ts`
 * computes it.
 */
import type { RoundReport } from '../certified/records/replay-run.ts';
import type { SharedMeasure } from '../run/contribution.ts';
import type { Digest, WorkerId } from '../run/ids.ts';

/** A contribution as its author announced it; the loss is what the author reports. */
export interface SentPicture {
  readonly worker: WorkerId;
  /** Size of the payload. */
  readonly bytes: number;
  /** Unix seconds, as signed. */
  readonly at: number;
  /** Mean training loss of its inner steps, if reported. */
  readonly loss?: number | undefined;
}

export interface RoundPicture
  extends Required<Omit<RoundReport, 'checked' | 'signers' | 'seats' | 'problem' | 'missing'>>,
    Omit<SharedMeasure, 'validationLoss'> {
  /** Unix seconds by the clock of its proposer. */
  readonly time: number;
  readonly proposer: WorkerId;
  readonly roster: readonly WorkerId[];
  /** Members by rank. */
  readonly committee: readonly WorkerId[];
  readonly quorum: number;
  /** Keys whose commits certify the round. */
  readonly signers: readonly WorkerId[];
  readonly sent: readonly SentPicture[];
  /** Mean of the training losses that contributors report. */
  readonly trainingLoss?: number | undefined;
  /** Median of the losses of the shared parameters after the round, as workers report them. */
  readonly sharedLoss?: number | undefined;
  /** Why the round is invalid. */
  readonly problem?: string | undefined;
}

export interface OpenRoundPicture
  extends Pick<RoundPicture, 'round' | 'attempt' | 'view' | 'roster' | 'quorum' | 'sent'> {
  /** Unix seconds of the previous outcome; 0 in the first round. */
  readonly since: number;
  /** Members by rank; empty while the draw is not known. */
  readonly committee: readonly WorkerId[];
  readonly proposed: readonly { readonly worker: WorkerId; readonly view: number }[];
  readonly prepared: readonly WorkerId[];
  readonly committed: readonly WorkerId[];
  /** Keys that vote for another committee. */
  readonly viewChanges: readonly WorkerId[];
  /** Committee members without an event in this round. */
  readonly missing: readonly WorkerId[];
  /** Missing data that a reader needs to follow the round. */
  readonly lacks?: string | undefined;
}

/** A key that is or was a worker of the run. */
export interface WorkerPicture {
  readonly worker: WorkerId;
  /** What people call it, as it says. */
  readonly name?: string | undefined;
  readonly inRoster: boolean;
  readonly hasSeat: boolean;
  /** The key it acts for, if that is another one. */
  readonly principal?: WorkerId | undefined;
  readonly isFaulted: boolean;
  readonly joined: number;
  /** Unix seconds of its newest event; 0 without any. */
  readonly lastSign: number;
  /** Its heartbeat is overdue, or it left. */
  readonly isAway: boolean;
  /** Round of its newest event. */
  readonly round: number;
  /** Number of its contributions that outcomes list. */
  readonly counted: number;
  /** Number of contributions that it announced. */
  readonly sent: number;
  readonly bytes: number;
  readonly device?: string | undefined;
  readonly loss?: number | undefined;
  /** Mean of its last scores, in millionths of a loss; only in runs with scores. */
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
  /** Trust tier, labelled if the run accepts simulated machines. */
  readonly tier: string;
  /** Number of rounds of the run. */
  readonly planned: number;
  readonly innerSteps: number;
  readonly seats: number;
  readonly hasText: boolean;
  /** Unit of losses, in words. */
  readonly lossUnit: string;
  /** Contributions report losses. */
  readonly reports: boolean;
  readonly rounds: readonly RoundPicture[];
  /** The current round; absent once the run is over. */
  readonly open?: OpenRoundPicture | undefined;
  readonly workers: readonly WorkerPicture[];
  readonly relays: readonly RelayPicture[];
  /** Refused events, the newest last; limited in number. */
  readonly refused: readonly RefusalPicture[];
  readonly events: number;
  /** All stored events of the relays were read. */
  readonly isCaughtUp: boolean;
}
