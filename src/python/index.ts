/**
 * The library of the Python nostrain with its names in camelCase: states, payloads, events, relays, regressions,
 * PyTorch files. Runs in browsers too; sessions and files are in `nostrain/python/node`. For a table of all names see
 * docs/python-names.md.
 *
 * @module nostrain/python
 */
export type { RetryPolicy, RetryPolicy as RelayRetryPolicy } from '../base/async.ts';
export {
  difference as computeDelta,
  moved as addStates,
  moved as applyDelta,
  scaleState,
  subtractStates,
  zerosLike,
} from '../formats/arithmetic.ts';
export {
  exportTorchStateDict as exportPytorchStateDict,
  importTorchStateDict as importPytorchStateDict,
  type LinearModel,
  type MlpModel,
  type MlpModel as MLPModel,
  type RegressionModel,
  readModel as readRegressionModel,
  runtimeOfState as inferTrainingRuntimeFromState,
  runtimeOfTorchStateDict as inferTrainingRuntimeFromPytorchStateDict,
  writeModel as writeRegressionModel,
} from '../formats/regression-state.ts';
export {
  formatStateJson,
  parseStateJson,
  stateOfTensors as modelStateFromTorchStateDictPayload,
  tensorsOfState as modelStateToTorchTensors,
} from '../formats/state-json.ts';
export {
  decodeStoredState,
  encodeStoredState,
  inferStateFormat as inferStateFormatFromPath,
  resolveStateFormat,
  resolveTorchPayload as resolveTorchCheckpointPayloadKind,
  type StateFormat,
  type StorageOptions,
  type StoredState,
  type StoredState as ModelStateDocument,
  stateFormats,
} from '../formats/stored-state.ts';
export { encodeTorchState } from '../formats/torch-pickle.ts';
export { decodeTorchState } from '../formats/torch-state.ts';
export {
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionTask,
} from '../model/data/regression.ts';
export { createSigner, type SignedEvent, type Signer } from '../network/event.ts';
export {
  createLayout,
  type Layout,
  type Params,
  type Params as ModelState,
  stateDigest,
  type TensorSlot,
  type TensorSlot as TensorLayout,
} from '../tensor/params.ts';
export type { NamedTensor, NamedTensor as TensorState } from '../tensor/safetensors.ts';
export type { Zstd } from './codec/container.ts';
export type {
  EncodedNstr,
  EncodedNstr as CompressedGradientPayload,
  NstrStats,
} from './codec/nstr.ts';
export type { ForeignNstr, ForeignNstrLimits } from './codec/payload.ts';
export {
  type CompressionOptions,
  compressDelta,
  decompressPayload,
  inspectPayload,
} from './codec/payload.ts';
export type {
  CollectedAt,
  CollectedEvent,
  Collection,
  Patience,
} from './collect/collect.ts';
export {
  type CheckpointsQuery,
  type CollectedCheckpoints,
  type CollectedCheckpoints as CheckpointCollectionResult,
  type CollectedGradients,
  type CollectedGradients as RelayCollectionResult,
  type CollectedLateGradients,
  type CollectedLateGradients as LateGradientCollectionResult,
  type CollectedWorkers,
  type CollectedWorkers as HeartbeatCollectionResult,
  collectGradients as collectGradientEvents,
  collectGradients as collectGradientEventsAcrossRelays,
  collectLateGradients as collectLateGradientEvents,
  collectLateGradients as collectLateGradientEventsAcrossRelays,
  discoverCheckpoints as collectCheckpointEvents,
  discoverCheckpoints as collectCheckpointEventsAcrossRelays,
  discoverWorkers as collectHeartbeatEvents,
  discoverWorkers as collectHeartbeatEventsAcrossRelays,
  type GradientsQuery,
  type LateGradientsQuery,
  latestOf as latestCheckpoint,
  type SyncStrategy,
  type WorkersQuery,
} from './collect/queries.ts';
export type { ReadingPorts } from './collect/read-relay.ts';
export {
  createRelayPorts,
  type RelayPorts,
  type RelayPortsOptions,
} from './collect/read-relay.ts';
export {
  aggregateDeltas,
  aggregateWeightedDeltas,
  nesterovOuterStep,
  type OuterStepOptions,
  type OuterStepResult,
  type WeightedDelta,
} from './outer-step.ts';
export {
  type InitialStateOptions,
  initialState as initializeTrainingState,
  linearState as initializeLinearRegressionState,
  type MlpStateOptions,
  mlpState as initializeMlpRegressionState,
} from './regression/initial-state.ts';
export {
  evaluateLinearRegression,
  evaluateMlpRegression,
  evaluateRegression,
  type RegressionOptions,
  type RegressionOptions as LocalTrainingConfig,
  type RegressionTraining,
  type RegressionTraining as LocalTrainingResult,
  resolveTrainingRuntime,
  trainLinearRegression,
  trainMlpRegression,
  trainRegression,
} from './regression/train.ts';
export {
  buildCheckpointEvent,
  buildGradientEvent,
  buildHeartbeatEvent,
  type CheckpointEventMetadata,
  type EventAuthor,
  type GradientEventMetadata,
  type HeartbeatEventMetadata,
  schnorrSign,
  schnorrVerify,
  secretKeyToPublicKey,
} from './wire/build-event.ts';
export type { CheckpointBody, TrainingCheckpoint } from './wire/checkpoints.ts';
export type { PublishingReport } from './wire/publishing.ts';
export {
  type PublishingPorts,
  publishNostrainEvent,
  publishNostrainEvent as publishCheckpointEvent,
  publishNostrainEvent as publishGradientEvent,
  publishNostrainEvent as publishHeartbeatEvent,
  publishNostrainEvent as publishNostrainEvents,
} from './wire/publishing.ts';
export type {
  LateGradient as LateGradientRecord,
  Reconciliation as LateGradientReconciliationSummary,
  RoundRecord as TrainingRoundSummary,
} from './wire/records.ts';
export {
  type Authorship,
  type EventOf,
  type LooseEvent,
  type LooseEvent as NostrainEvent,
  parseCheckpointEvent,
  parseGradientEvent,
  parseHeartbeatEvent,
  type ReferenceEvent,
  type ReferenceEventOptions,
  readReferenceEvent as parseNostrainEvent,
  type SigningState,
  signingState,
} from './wire/reference-event.ts';
export type { RelayAttempts, RelayFailure } from './wire/retries.ts';
