/**
 * The part of the Python nostrain's library that requires Node.js: training sessions, state files, the engine for
 * `--backend numpy` and `torch`, and zstd.
 *
 * @module nostrain/python/node
 */

export {
  readStateFile as loadModelState,
  readStateFile as loadModelStateDocument,
  readStateFile as loadTorchCheckpoint,
  writeStateFile as writeModelState,
  writeStateFile as writeModelStateDocument,
  writeStateFile as writeTorchCheckpoint,
} from '../../node/files/state-file.ts';
export type { TrainingWorkerConfig } from './run-training-session.ts';
export {
  runTrainingSession,
  type TrainingSessionOptions,
  type TrainingSessionResult,
} from './run-training-session.ts';
export {
  type RegressionBackend,
  regressionBackends,
  resolveTrainingBackend,
  trainOnBackend,
} from './train-on-backend.ts';
export { openZstd } from './zstd.ts';
