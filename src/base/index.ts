/**
 * Bytes, hashes, reproducible random numbers, canonical JSON, Merkle trees, errors and clocks.
 *
 * @module nostrain/base
 */
export {
  type Clock,
  createNotifier,
  defaultRetry,
  type RetryPolicy,
  systemClock,
} from './async.ts';
export { Recent } from './bounded.ts';
export { concatBytes, fromHex, toBase64, toHex, utf8 } from './bytes.ts';
export {
  ChainError,
  CheckpointError,
  ConfigError,
  type Issue,
  NostrainError,
  RelayError,
  type Result,
  refuse,
  TrainingError,
} from './errors.ts';
export { createSha256, sha256, sha256Hex, u32 } from './hash.ts';
export { merklePath } from './merkle.ts';
export { deriveKey, type Key, philox, unit } from './rng.ts';
