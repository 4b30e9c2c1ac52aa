/**
 * Events, relay connections, payload codecs, chunks and the directory of holders.
 *
 * @module nostrain/network
 */
export { Attachments } from './attachments/attachments.ts';
export { apartIn } from './attachments/bodies.ts';
export { sendChunks } from './attachments/publish.ts';
export { createHttpSource } from './chunks/http-source.ts';
export { type FileManifest, manifestDigest, type Piece, piecesOf } from './chunks/manifest.ts';
export {
  chunkCount,
  chunkTree,
  createAssembly,
  cutParts,
  heapChunks,
  type PayloadRoot,
  planChunks,
  splitChunks,
  toChunk,
  verifyChunk,
} from './chunks/payload.ts';
export { encodeGroup, multiply, restoreGroup } from './chunks/reed-solomon.ts';
export type { ChunkSource } from './chunks/source.ts';
export { type CodecName, codecs, type Packing, payloadBytes } from './codec/codecs.ts';
export { PAYLOAD_HEADER_BYTES, type PayloadScope } from './codec/header.ts';
export { decodePayload, encodePayload } from './codec/payload.ts';
export {
  createSigner,
  type EventDraft,
  parseEvent,
  type SignedEvent,
  type Signer,
  verifyEvent,
} from './event.ts';
export { type EventCrypto, pureCrypto } from './event-crypto.ts';
export type { Mine, WorkDraft } from './proof-of-work.ts';
export { type Filter, matchesFilter, parseFrame } from './transport/frames.ts';
export { Handed, Inbox } from './transport/inbox.ts';
export type { FetchInfo, RelayInfo } from './transport/limits.ts';
export type { PublishOutcome, SendOptions } from './transport/publish-outcome.ts';
export { defaultQuota } from './transport/rates.ts';
export {
  createRelaySet,
  type RelaySet,
  type RelaySetOptions,
  type RelayStatus,
  type Subscription,
} from './transport/relay-set.ts';
export {
  hintProblem,
  parseRelayUrls,
  relaysOfKey,
  withoutSecrets,
} from './transport/relay-urls.ts';
export type { OpenSocket, Socket } from './transport/socket.ts';
export type { SubscribeOptions, SubscriptionHandlers } from './transport/subscription.ts';
export { createWire } from './wire/create-wire.ts';
export { buildHolder, type HolderOffer } from './wire/holders.ts';
export { type LocalManifest, type Manifest, readManifest, toManifest } from './wire/manifests.ts';
export { buildManifest, buildPresence, toPresence } from './wire/native-profile.ts';
export { createPacker, type Packer, packingFor } from './wire/packer.ts';
export type { ProfileName, RoundInbox, Wire, WireOptions } from './wire/wire.ts';
export {
  buildRelayList,
  parseRelayList,
  type RelayList,
  relayHints,
} from './wire/worker-relays.ts';
