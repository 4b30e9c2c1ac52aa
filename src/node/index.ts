/**
 * The entry point for Node.js: training on onnxruntime-node, WebSockets, files, keys, and joining a certified run.
 *
 * @module nostrain/node
 */

export type { TrainerSetup } from '../trainer/setup.ts';
export { type Corpus, loadCorpus } from './data/corpus.ts';
export { createTrainer } from './engine/trainer.ts';
export { createSecretKey, loadKey, parseSecretKey, publicKeyOf } from './files/keys.ts';
export { openRunFolder, type RunFolder } from './files/run-folder.ts';
export { type FriendMachine, type HostOptions, hostRun, joinRun } from './friends/host-run.ts';
export type { JoinMachine, JoinPorts } from './join/join-run.ts';
export { nativeCrypto } from './native/event-crypto.ts';
export { nativeSha256 } from './native/sha256.ts';
export { mine } from './net/proof-of-work.ts';
export { fetchRelayInfo, openSocket } from './net/relays.ts';
