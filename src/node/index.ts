/**
 * What a worker needs from Node.js: training on onnxruntime-node, WebSockets, files and keys.
 *
 * @module nostrain/node
 */
export { type Corpus, loadCorpus } from './corpus.ts';
export { createSecretKey, loadKey, parseSecretKey, publicKeyOf } from './keys.ts';
export { nativeCrypto } from './native-crypto.ts';
export { nativeSha256 } from './native-sha256.ts';
export { mine } from './proof-of-work.ts';
export { fetchRelayInfo } from './relay-info.ts';
export { openRunFolder, type RunFolder } from './run-folder.ts';
export {
  runTrainingSession,
  type TrainingSessionOptions,
  type TrainingSessionResult,
} from './run-training-session.ts';
export { openSocket } from './sockets.ts';
export {
  readStateFile as loadModelState,
  readStateFile as loadModelStateDocument,
  readStateFile as loadTorchCheckpoint,
  writeStateFile as writeModelState,
  writeStateFile as writeModelStateDocument,
  writeStateFile as writeTorchCheckpoint,
} from './state-io.ts';
export {
  type RegressionBackend,
  regressionBackends,
  resolveTrainingBackend,
  trainOnBackend,
} from './train-on-backend.ts';
export { createTrainer, type TrainerSetup } from './trainer.ts';
export type { TrainingWorkerConfig } from './training-worker-config.ts';
export { openZstd } from './zstd.ts';
