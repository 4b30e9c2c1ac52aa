/**
 * The core of nostrain: train, publish the update over Nostr relays, collect those of others, take the outer step.
 * Runs in browsers too. What needs Node.js is in `nostrain/node`, certified runs are in `nostrain/certified`, and what
 * exists for the Python nostrain is in `nostrain/python`.
 *
 * @module nostrain
 */
export { type Clock, defaultRetry, type RetryPolicy, systemClock } from './base/async.ts';
export type { Issue, Result } from './base/errors.ts';
export {
  ChainError,
  CheckpointError,
  ConfigError,
  NostrainError,
  RelayError,
  TrainingError,
} from './base/errors.ts';
export { deriveKey, type Key } from './base/rng.ts';
export type { OuterSettings } from './consensus/outer/nesterov.ts';
export { type LoraSpec, loraModel } from './model/adapters/lora.ts';
export type {
  Batch,
  CustomModel,
  DataForm,
  Model,
  RowForm,
  TensorSpec,
  TokenForm,
  Weights,
} from './model/architectures/architecture.ts';
export { readModelConfig } from './model/architectures/config.ts';
export type { AnyModel } from './model/architectures/table.ts';
export {
  parseRegressionDataset,
  type RegressionDataset,
  type RegressionSet,
  type RegressionTask,
} from './model/data/regression.ts';
export type { Tokens } from './model/data/tokens.ts';
export { type Tokenizer, tokenizers } from './model/data/tokens.ts';
export type { Value } from './model/graph/rule.ts';
export * as ops from './model/graph/verbs.ts';
export { countParameters, initialParameters, modelLayout } from './model/parameters.ts';
export { compileTraining, type TrainingProgram } from './model/training-program.ts';
export { createSigner, type SignedEvent, type Signer } from './network/event.ts';
export type { EventCrypto } from './network/event-crypto.ts';
export type { Mine, WorkDraft } from './network/proof-of-work.ts';
export type { FetchInfo, RelayInfo } from './network/transport/limits.ts';
export type { PublishOutcome, SendOptions } from './network/transport/publish-outcome.ts';
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
  buildRelayList,
  parseRelayList,
  type RelayList,
  relayHints,
} from './network/wire/worker-relays.ts';
export type { Contribution, Rejection, RejectReason } from './run/contribution.ts';
export { completeSettings, readSettings, type Settings } from './run/settings.ts';
export type { DecoderSpec, ModelSpec, OptimizerSpec } from './run/spec/model-spec.ts';
export { presets } from './run/spec/presets.ts';
export { parseRunSpec } from './run/spec/read-spec.ts';
export { canonicalSpec, type RunSpec, runIdOf } from './run/spec/run-spec.ts';
export {
  createLayout,
  type Layout,
  type Params,
  stateDigest,
  type TensorSlot,
} from './tensor/params.ts';
export { decodeSafetensors, encodeSafetensors, type NamedTensor } from './tensor/safetensors.ts';
export type { RoundSummary, WorkerEvent } from './worker/events.ts';
export { runWorker } from './worker/loop.ts';
export { completePlan, type Plan } from './worker/plan.ts';
export type { Ports, Store, Trainer } from './worker/ports.ts';
export { genesis, type WorkerState } from './worker/state.ts';
