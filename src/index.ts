/**
 * The public API: everything here runs in a browser too; what needs Node.js is in `nostrain/node`. What the Python reference's
 * library has goes by its names here, in camelCase: docs/library.md.
 *
 * @module nostrain
 */
export { type Clock, systemClock } from './base/clock.ts';
export {
  ChainError,
  CheckpointError,
  ConfigError,
  NostrainError,
  RelayError,
  TrainingError,
} from './base/errors.ts';
export type { Issue, Result } from './base/result.ts';
export {
  defaultRetry,
  type RetryPolicy,
  type RetryPolicy as RelayRetryPolicy,
} from './base/retry.ts';
export { deriveKey, type Key, philox } from './base/rng.ts';
export {
  type Mean,
  type MeanOptions,
  type MeanRule,
  type Row,
  weightedMean,
} from './consensus/aggregate/mean.ts';
export { nesterovStep, type OuterSettings } from './consensus/outer/nesterov.ts';
export type {
  Batch,
  DataForm,
  Model,
  OwnModel,
  RowForm,
  TensorSpec,
  TokenForm,
  Weights,
} from './model/architectures/architecture.ts';
export type { AnyModel } from './model/architectures/table.ts';
export {
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionSet,
  type RegressionTask,
} from './model/data/regression.ts';
export { type Tokenizer, tokenizers } from './model/data/tokenizer.ts';
export type { Value } from './model/graph/value.ts';
export * as ops from './model/graph/verbs.ts';
export { countParameters, initialParameters, modelLayout } from './model/parameters.ts';
export { compileTraining, type TrainingProgram } from './model/training-program.ts';
export { createSigner, type SignedEvent, type Signer } from './network/event.ts';
export type { EventCrypto } from './network/event-crypto.ts';
export {
  type Authorship,
  type LooseEvent,
  type LooseEvent as NostrainEvent,
  type SigningState,
  signingState,
} from './network/loose-event.ts';
export {
  leadingZeroBits,
  MAX_WORK_BITS,
  MAX_WORK_BYTES,
  type Mine,
  type WorkDraft,
} from './network/proof-of-work.ts';
export { schnorrSign, schnorrVerify, secretKeyToPublicKey } from './network/schnorr-hex.ts';
export { clockNotice, diagnosePublish } from './network/transport/diagnose.ts';
export type { PublishOutcome, SendOptions } from './network/transport/publishing.ts';
export type { FetchInfo, RelayInfo } from './network/transport/relay-info.ts';
export {
  buildRelayList,
  parseRelayList,
  type RelayList,
  relayHints,
} from './network/transport/relay-list.ts';
export {
  createRelaySet,
  type RelaySet,
  type RelaySetOptions,
  type RelayStatus,
  type Subscription,
} from './network/transport/relay-set.ts';
export { createWire } from './network/wire/create-wire.ts';
export type { RoundInbox, Wire, WireOptions } from './network/wire/wire.ts';
export {
  type CompressionOptions,
  compressDelta,
  decompressPayload,
  defaultPayloadLimits,
  inspectPayload,
} from './python/codec/delta-payload.ts';
export type { NstrStats } from './python/codec/header.ts';
export {
  decodeNstr,
  type EncodedNstr,
  type EncodedNstr as CompressedGradientPayload,
  type NstrLimits,
} from './python/codec/nstr.ts';
export type { ForeignNstr, ForeignNstrLimits } from './python/codec/nstr-foreign.ts';
export type { Zstd } from './python/codec/zstd.ts';
export { type Agreed, agreements, newestAgreed } from './python/collect/agreement.ts';
export {
  type CheckpointsFound,
  type CheckpointsFound as CheckpointCollectionResult,
  type CheckpointsQuery,
  discoverCheckpoints as collectCheckpointEvents,
  discoverCheckpoints as collectCheckpointEventsAcrossRelays,
  latestOf as latestCheckpoint,
} from './python/collect/checkpoints.ts';
export type { CollectedAt, Collection, Patience } from './python/collect/collect.ts';
export {
  collectGradients as collectGradientEvents,
  collectGradients as collectGradientEventsAcrossRelays,
  type GradientsFound,
  type GradientsFound as RelayCollectionResult,
  type GradientsQuery,
  type SyncStrategy,
} from './python/collect/gradients.ts';
export {
  collectLateGradients as collectLateGradientEvents,
  collectLateGradients as collectLateGradientEventsAcrossRelays,
  type LateGradientsFound,
  type LateGradientsFound as LateGradientCollectionResult,
  type LateGradientsQuery,
} from './python/collect/late-gradients.ts';
export type { ReadingPorts } from './python/collect/read-relay.ts';
export {
  createRelayPorts,
  type RelayPorts,
  type RelayPortsOptions,
} from './python/collect/relay-ports.ts';
export type { Kept } from './python/collect/shelf.ts';
export {
  discoverWorkers as collectHeartbeatEvents,
  discoverWorkers as collectHeartbeatEventsAcrossRelays,
  type WorkersFound,
  type WorkersFound as HeartbeatCollectionResult,
  type WorkersQuery,
} from './python/collect/workers.ts';
export {
  difference as computeDelta,
  moved as addStates,
  moved as applyDelta,
} from './python/formats/arithmetic.ts';
export {
  stateOfTensors as modelStateFromTorchStateDictPayload,
  tensorsOfState as modelStateToTorchTensors,
} from './python/formats/named-state.ts';
export { scaleState, subtractStates, zerosLike } from './python/formats/state-algebra.ts';
export {
  inferStateFormat as inferStateFormatFromPath,
  type StateFormat,
  stateFormats,
} from './python/formats/state-format.ts';
export { formatStateJson, parseStateJson } from './python/formats/state-json.ts';
export {
  decodeStoredState,
  encodeStoredState,
  resolveStateFormat,
  resolveTorchPayload as resolveTorchCheckpointPayloadKind,
  type StorageOptions,
  type StoredState,
  type StoredState as ModelStateDocument,
} from './python/formats/stored-state.ts';
export { decodeTorchState, encodeTorchState } from './python/formats/torch-state.ts';
export {
  nesterovOuterStep,
  type OuterStepOptions,
  type OuterStepResult,
} from './python/outer/nesterov-outer-step.ts';
export {
  aggregateDeltas,
  aggregateWeightedDeltas,
  type WeightedDelta,
} from './python/outer/weighted-deltas.ts';
export {
  evaluateLinearRegression,
  evaluateMlpRegression,
  resolveTrainingRuntime,
  trainLinearRegression,
  trainMlpRegression,
} from './python/regression/by-runtime.ts';
export {
  type InitialStateOptions,
  initialState as initializeTrainingState,
  linearState as initializeLinearRegressionState,
  type MlpStateOptions,
  mlpState as initializeMlpRegressionState,
} from './python/regression/initial-state.ts';
export {
  type LinearModel,
  type MlpModel,
  type MlpModel as MLPModel,
  type RegressionModel,
  readModel as readRegressionModel,
  writeModel as writeRegressionModel,
} from './python/regression/layout.ts';
export {
  exportTorchStateDict as exportPytorchStateDict,
  importTorchStateDict as importPytorchStateDict,
  runtimeOfState as inferTrainingRuntimeFromState,
  runtimeOfTorchStateDict as inferTrainingRuntimeFromPytorchStateDict,
} from './python/regression/torch-names.ts';
export {
  evaluateRegression,
  type RegressionOptions,
  type RegressionOptions as LocalTrainingConfig,
  type RegressionTraining,
  type RegressionTraining as LocalTrainingResult,
  trainRegression,
} from './python/regression/train.ts';
export {
  buildCheckpointEvent,
  buildGradientEvent,
  buildHeartbeatEvent,
  type CheckpointEventMetadata,
  type EventAuthor,
  type GradientEventMetadata,
  type HeartbeatEventMetadata,
} from './python/wire/build-reference-event.ts';
export type { CheckpointBody, TrainingCheckpoint } from './python/wire/checkpoints.ts';
export type {
  LateGradient as LateGradientRecord,
  Reconciliation as LateGradientReconciliationSummary,
} from './python/wire/late-record.ts';
export {
  type PublishingPorts,
  publishNostrainEvent,
  publishNostrainEvent as publishCheckpointEvent,
  publishNostrainEvent as publishGradientEvent,
  publishNostrainEvent as publishHeartbeatEvent,
  publishNostrainEvent as publishNostrainEvents,
} from './python/wire/publish-event.ts';
export type { PublishingReport } from './python/wire/publishing-report.ts';
export {
  type EventOf,
  parseCheckpointEvent,
  parseGradientEvent,
  parseHeartbeatEvent,
  type ReferenceEvent,
  type ReferenceEventOptions,
  readReferenceEvent as parseNostrainEvent,
} from './python/wire/reference-event.ts';
export type { RelayAttempts, RelayFailure } from './python/wire/retry-telemetry.ts';
export type { RoundRecord as TrainingRoundSummary } from './python/wire/round-record.ts';
export type { Contribution, Rejection, RejectReason } from './run/contribution.ts';
export type { ModelSpec, OptimizerSpec } from './run/model-spec.ts';
export { presets } from './run/presets.ts';
export { parseRunSpec } from './run/read-spec.ts';
export { canonicalSpec, type RunSpec, runIdOf } from './run/run-spec.ts';
export { completeSettings, readSettings, type Settings } from './run/settings.ts';
export { stateDigest } from './tensor/digest.ts';
export {
  createLayout,
  type Layout,
  type Params,
  type Params as ModelState,
  type TensorSlot,
  type TensorSlot as TensorLayout,
} from './tensor/params.ts';
export {
  decodeSafetensors,
  encodeSafetensors,
  type NamedTensor,
  type NamedTensor as TensorState,
} from './tensor/safetensors.ts';
export type { RoundSummary, WorkerEvent } from './worker/events.ts';
export { runWorker } from './worker/loop.ts';
export { completePlan, type Plan } from './worker/plan.ts';
export type { Ports, Store, Trainer } from './worker/ports.ts';
export { genesis, type WorkerState } from './worker/state.ts';
