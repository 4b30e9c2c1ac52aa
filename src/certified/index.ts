/**
 * Certified runs: every round ends in an outcome that a quorum of a committee signed. Join one as a worker, archive it
 * from relays, replay an archive without a key, explain a contribution, prove that a round belongs to a run.
 *
 * @module nostrain/certified
 */
export { isRoundOf, proveRound, type RoundProof, runRoot } from '../consensus/roots.ts';
export { layoutOf } from '../model/from-settings.ts';
export { type RunSpec, runIdOf } from '../run/spec/run-spec.ts';
export type { Hashing } from './decisions/evidence.ts';
export type { RefreshPort } from './features/stakes.ts';
export type { BeaconRecord } from './history/gather.ts';
export {
  type CertifiedOptions,
  type CertifiedWorker,
  type JoinOptions,
  joinCertifiedRun,
} from './join.ts';
export { type Made, makeSpec, type NamedCorpus, type SpecRequest } from './make-spec.ts';
export {
  type Archive,
  type ArchiveFile,
  type ArchiveOptions,
  archiveRun,
  type BadLine,
  formatArchive,
  type HistoryOptions,
  type Opened,
  readArchive,
} from './records/archive.ts';
export { type Explanation, explainRound, type Question } from './records/explain.ts';
export {
  type Receipt,
  type Receipted,
  type ReceiptRow,
  receiptOf,
} from './records/receipt.ts';
export {
  type ReplayOptions,
  type ReplayReport,
  type RoundReport,
  replayRun,
} from './records/replay-run.ts';
export type { RunEvent } from './rounds/events.ts';
export type { Entry, Journal } from './rounds/journal.ts';
