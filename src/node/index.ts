/**
 * What a worker needs from Node.js: training on onnxruntime-node, WebSockets, files and keys.
 *
 * @module nostrain/node
 */

export {
  runTrainingSession,
  type TrainingSessionOptions,
  type TrainingSessionResult,
} from '../python/node/run-training-session.ts';
export {
  readStateFile as loadModelState,
  readStateFile as loadModelStateDocument,
  readStateFile as loadTorchCheckpoint,
  writeStateFile as writeModelState,
  writeStateFile as writeModelStateDocument,
  writeStateFile as writeTorchCheckpoint,
} from '../python/node/state-io.ts';
export {
  type RegressionBackend,
  regressionBackends,
  resolveTrainingBackend,
  trainOnBackend,
} from '../python/node/train-on-backend.ts';
export type { TrainingWorkerConfig } from '../python/node/training-worker-config.ts';
export { openZstd } from '../python/node/zstd.ts';
export { type Corpus, loadCorpus } from './corpus.ts';
export { createSecretKey, loadKey, parseSecretKey, publicKeyOf } from './keys.ts';
export { nativeCrypto } from './native-crypto.ts';
export { nativeSha256 } from './native-sha256.ts';
export { mine } from './proof-of-work.ts';
export { fetchRelayInfo } from './relay-info.ts';
export { openRunFolder, type RunFolder } from './run-folder.ts';
export { openSocket } from './sockets.ts';
export { createTrainer, type TrainerSetup } from './trainer/trainer.ts';
