/**
 * What a worker needs from Node.js: training on onnxruntime-node, WebSockets, files and keys.
 *
 * @module nostrain/node
 */

export type { TrainerSetup } from '../trainer/setup.ts';
export { type Corpus, loadCorpus } from './corpus.ts';
export { createSecretKey, loadKey, parseSecretKey, publicKeyOf } from './keys.ts';
export { nativeCrypto } from './native-crypto.ts';
export { nativeSha256 } from './native-sha256.ts';
export { mine } from './proof-of-work.ts';
export { fetchRelayInfo } from './relay-info.ts';
export { openRunFolder, type RunFolder } from './run-folder.ts';
export { openSocket } from './sockets.ts';
export { createTrainer } from './trainer/trainer.ts';
