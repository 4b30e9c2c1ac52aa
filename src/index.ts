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
export { type MeanOptions, meanDelta } from './consensus/aggregate/mean.ts';
export {
  aggregateDeltas,
  aggregateWeightedDeltas,
  type WeightedDelta,
} from './consensus/aggregate/weighted-deltas.ts';
export { nesterovStep, type OuterSettings } from './consensus/outer/nesterov.ts';
export {
  nesterovOuterStep,
  type OuterStepOptions,
  type OuterStepResult,
} from './consensus/outer/nesterov-outer-step.ts';
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
export {
  evaluateLinearRegression,
  evaluateMlpRegression,
  resolveTrainingRuntime,
  trainLinearRegression,
  trainMlpRegression,
} from './model/regression/by-runtime.ts';
export {
  type InitialStateOptions,
  initialState as initializeTrainingState,
  linearState as initializeLinearRegressionState,
  type MlpStateOptions,
  mlpState as initializeMlpRegressionState,
} from './model/regression/initial-state.ts';
export {
  type LinearModel,
  type MlpModel,
  type MlpModel as MLPModel,
  type RegressionModel,
  readModel as readRegressionModel,
  writeModel as writeRegressionModel,
} from './model/regression/layout.ts';
export {
  exportTorchStateDict as exportPytorchStateDict,
  importTorchStateDict as importPytorchStateDict,
  runtimeOfState as inferTrainingRuntimeFromState,
  runtimeOfTorchStateDict as inferTrainingRuntimeFromPytorchStateDict,
} from './model/regression/torch-names.ts';
export {
  evaluateRegression,
  type RegressionOptions,
  type RegressionOptions as LocalTrainingConfig,
  type RegressionTraining,
  type RegressionTraining as LocalTrainingResult,
  trainRegression,
} from './model/regression/train.ts';
export {
  decodeStoredState,
  encodeStoredState,
  resolveStateFormat,
  resolveTorchPayload as resolveTorchCheckpointPayloadKind,
  type StorageOptions,
  type StoredState,
  type StoredState as ModelStateDocument,
} from './model/stored-state.ts';
export { compileTraining, type TrainingProgram } from './model/training-program.ts';
export {
  type CompressionOptions,
  compressDelta,
  decompressPayload,
  defaultPayloadLimits,
  inspectPayload,
} from './network/codec/delta-payload.ts';
export type { NstrStats } from './network/codec/header.ts';
export {
  decodeNstr,
  type EncodedNstr,
  type EncodedNstr as CompressedGradientPayload,
  type NstrLimits,
} from './network/codec/nstr.ts';
export type { ForeignNstr, ForeignNstrLimits } from './network/codec/nstr-foreign.ts';
export type { Zstd } from './network/codec/zstd.ts';
export { type Agreed, agreements, newestAgreed } from './network/collect/agreement.ts';
export {
  type CheckpointsFound,
  type CheckpointsFound as CheckpointCollectionResult,
  type CheckpointsQuery,
  discoverCheckpoints as collectCheckpointEvents,
  discoverCheckpoints as collectCheckpointEventsAcrossRelays,
  latestOf as latestCheckpoint,
} from './network/collect/checkpoints.ts';
export type { CollectedAt, Collection, Patience } from './network/collect/collect.ts';
export {
  collectGradients as collectGradientEvents,
  collectGradients as collectGradientEventsAcrossRelays,
  type GradientsFound,
  type GradientsFound as RelayCollectionResult,
  type GradientsQuery,
  type SyncStrategy,
} from './network/collect/gradients.ts';
export {
  collectLateGradients as collectLateGradientEvents,
  collectLateGradients as collectLateGradientEventsAcrossRelays,
  type LateGradientsFound,
  type LateGradientsFound as LateGradientCollectionResult,
  type LateGradientsQuery,
} from './network/collect/late-gradients.ts';
export type { ReadingPorts } from './network/collect/read-relay.ts';
export {
  createRelayPorts,
  type RelayPorts,
  type RelayPortsOptions,
} from './network/collect/relay-ports.ts';
export type { Kept } from './network/collect/shelf.ts';
export {
  discoverWorkers as collectHeartbeatEvents,
  discoverWorkers as collectHeartbeatEventsAcrossRelays,
  type WorkersFound,
  type WorkersFound as HeartbeatCollectionResult,
  type WorkersQuery,
} from './network/collect/workers.ts';
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
export {
  buildCheckpointEvent,
  buildGradientEvent,
  buildHeartbeatEvent,
  type CheckpointEventMetadata,
  type EventAuthor,
  type GradientEventMetadata,
  type HeartbeatEventMetadata,
} from './network/wire/build-reference-event.ts';
export type { CheckpointBody, TrainingCheckpoint } from './network/wire/checkpoints.ts';
export { createWire } from './network/wire/create-wire.ts';
export type {
  LateGradient as LateGradientRecord,
  Reconciliation as LateGradientReconciliationSummary,
} from './network/wire/late-record.ts';
export {
  type PublishingPorts,
  publishNostrainEvent,
  publishNostrainEvent as publishCheckpointEvent,
  publishNostrainEvent as publishGradientEvent,
  publishNostrainEvent as publishHeartbeatEvent,
  publishNostrainEvent as publishNostrainEvents,
} from './network/wire/publish-event.ts';
export type { PublishingReport } from './network/wire/publishing-report.ts';
export {
  type EventOf,
  parseCheckpointEvent,
  parseGradientEvent,
  parseHeartbeatEvent,
  type ReferenceEvent,
  type ReferenceEventOptions,
  readReferenceEvent as parseNostrainEvent,
} from './network/wire/reference-event.ts';
export type { RelayAttempts, RelayFailure } from './network/wire/retry-telemetry.ts';
export type { RoundRecord as TrainingRoundSummary } from './network/wire/round-record.ts';
export type { RoundInbox, Wire, WireOptions } from './network/wire/wire.ts';
export type { Contribution, Rejection, RejectReason } from './run/contribution.ts';
export type { ModelSpec, OptimizerSpec } from './run/model-spec.ts';
export { presets } from './run/presets.ts';
export { parseRunSpec } from './run/read-spec.ts';
export { canonicalSpec, type RunSpec, runIdOf } from './run/run-spec.ts';
export { completeSettings, readSettings, type Settings } from './run/settings.ts';
export {
  difference as computeDelta,
  moved as addStates,
  moved as applyDelta,
} from './tensor/arithmetic.ts';
export { stateDigest } from './tensor/digest.ts';
export {
  stateOfTensors as modelStateFromTorchStateDictPayload,
  tensorsOfState as modelStateToTorchTensors,
} from './tensor/named-state.ts';
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
export { scaleState, subtractStates, zerosLike } from './tensor/state-algebra.ts';
export {
  inferStateFormat as inferStateFormatFromPath,
  type StateFormat,
  stateFormats,
} from './tensor/state-format.ts';
export { formatStateJson, parseStateJson } from './tensor/state-json.ts';
export { decodeTorchState, encodeTorchState } from './tensor/torch-state.ts';
export type { RoundSummary, WorkerEvent } from './worker/events.ts';
export { runWorker } from './worker/loop.ts';
export { completePlan, type Plan } from './worker/plan.ts';
export type { Ports, Store, Trainer } from './worker/ports.ts';
export { genesis, type WorkerState } from './worker/state.ts';
