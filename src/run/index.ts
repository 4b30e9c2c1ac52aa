/**
 * Entry point `nostrain/run`: types, parsers and writers for the data of a run (settings, the run spec and its
 * features, ledger, outcome, stake snapshots), and the types of votes.
 *
 * @module nostrain/run
 */

export type { Untyped } from '../base/shape.ts';
export {
  type Aggregation,
  leastRows,
  ruleForms,
  ruleNames,
  usualAggregation,
} from './aggregation.ts';
export type { Committee } from './committee.ts';
export type { Contribution, Heartbeat, Rejection, RejectReason } from './contribution.ts';
export type { Field, Group } from './field.ts';
export type { Digest, EventId, WorkerId } from './ids.ts';
export {
  type Ledger,
  ledgerBytes,
  ledgerRoot,
  nextSnapshotOf,
  parseLedger,
  snapshotOf,
} from './ledger.ts';
export { fields } from './options.ts';
export { type Outcome, outcomeBody, outcomeDigest, parseOutcome } from './outcome.ts';
export type { Holder, PlacementPolicy } from './placement-policy.ts';
export {
  completeSettings,
  type PackingName,
  type PartialSettings,
  type ResidualRule,
  readSettings,
  type SettingName,
  type Settings,
  settingNames,
  sharedNames,
  typedWords,
  writeSettings,
} from './settings.ts';
export { settingsFingerprint } from './settings-fingerprint.ts';
export { specRules, tierRules } from './spec/exclusions.ts';
export { anyFeatures, featureSet, features, noFeatures, tierFeatures } from './spec/features.ts';
export {
  type AdamWSpec,
  type Arithmetic,
  type DecoderSpec,
  type Gpt2Spec,
  type GptSpec,
  type LlamaSpec,
  type ModelSpec,
  type OptimizerSpec,
  type Precision,
  precisions,
} from './spec/model-spec.ts';
export { adaptedSettings, combineSettings, presets } from './spec/presets.ts';
export {
  completeDocument,
  contradictions,
  parseRunSpec,
  readSpec,
  settingsOf,
  trainingFields,
} from './spec/read-spec.ts';
export { canonicalSpec, keptSeconds, type RunSpec, runIdOf } from './spec/run-spec.ts';
export { hashBase, readStart, shapeOf } from './spec/start.ts';
export {
  decodeSnapshot,
  formatStakeJson,
  keyListHash,
  MAX_STAKE_ROWS,
  parseStakeJson,
  type StakeSnapshot,
  snapshotBytes,
  snapshotId,
  stakeOf,
  stakeParams,
  stakeRows,
  successorOf,
} from './stake/stake-snapshot.ts';
export type {
  Commit,
  Join,
  Leave,
  Message,
  Prepare,
  Proposal,
  Signed,
  ViewChangeVote,
  Vote,
} from './vote.ts';
