/**
 * The building blocks of `nostrain/node`: checkpoint folders and servers of chunks, corpora and token files, published
 * models, training sessions, pages over HTTP.
 *
 * @module nostrain/node/parts
 */

export type { FrozenNumbers } from '../trainer/setup.ts';
export type { EngineTrainer } from '../trainer/trainer.ts';
export { createFolderSource, readManifest } from './checkpoint/folder.ts';
export { serveFolder } from './checkpoint/holder-server.ts';
export { packFile } from './checkpoint/pack.ts';
export { createRunChunks } from './checkpoint/run-chunks.ts';
export { openCorpus } from './data/corpus.ts';
export { nodeRuntime } from './engine/sessions.ts';
export { physicalCores } from './engine/trainer.ts';
export { toNpub } from './files/keys.ts';
export { takeLock } from './files/run-folder.ts';
export { createNativeSha256 } from './native/sha256.ts';
export { createAskHttp } from './net/ask-http.ts';
export { type PageServer, readPage, readTab, servePage } from './net/http-server.ts';
export { parseRelayInfo } from './net/relays.ts';
export { openLocalModel, smolLM2File, writeFolder } from './pretrained/model-files.ts';
export { exportTiers, tierFolder } from './pretrained/tier-files.ts';
