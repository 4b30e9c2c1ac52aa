/** Sample events for a relay trial: the kinds and sizes a run sends, of a run that does not exist, expiring after five minutes. */
import { CHUNK_BYTES, chunk } from '../../kinds/chunk.ts';
import { gradient } from '../../kinds/gradient.ts';
import { heartbeat } from '../../kinds/heartbeat.ts';
import { presence } from '../../kinds/presence.ts';
import { toBase64, toHex } from '../base/bytes.ts';
import { sha256 } from '../base/hash.ts';
import { chunkTree } from '../network/chunks/payload.ts';
import {
  type EventDraft,
  parseEvent,
  type SignedEvent,
  signedEventBytes,
} from '../network/event.ts';
import { buildManifest } from '../network/wire/manifests.ts';

/** Relays may forget a probe after this. */
const LIFETIME_SECONDS = 300;
const ZEROS = '0'.repeat(64);

export interface Samples {
  readonly run: string;
  /** What `#s` finds the manifest by. */
  readonly scope: string;
  /** A manifest with a payload of that many bytes inside; by default as large as it gets. */
  manifest(payloadBytes?: number): EventDraft;
  /** A small chunk, different each time. */
  chunk(): EventDraft;
  presence(): EventDraft;
  heartbeat(): EventDraft;
  gradient(): EventDraft;
  ephemeral(): EventDraft;
  /** An event of the kind whose JSON is that many bytes once signed. */
  padded(kind: number, bytes: number): EventDraft;
  deletion(events: readonly SignedEvent[]): EventDraft;
}

/** Every sample is made now, that is at `nowSeconds()`. */
export function createSamples(publicKey: string, nowSeconds: () => number): Samples {
  const run = `relay-check-${toHex(randomBytes(4))}`;
  const scope = `${run}/0`;
  const expiration = () => nowSeconds() + LIFETIME_SECONDS;
  const mark = (): string[][] => [
    ['t', 'nostrain'],
    ['s', run],
    ['expiration', String(expiration())],
  ];
  const draft = (kind: number, tags: readonly string[][], content = ''): EventDraft => ({
    kind,
    created_at: nowSeconds(),
    tags: [...tags, ...mark()],
    content,
  });
  return {
    run,
    scope,
    manifest(payloadBytes = CHUNK_BYTES) {
      const own = { run, round: 0, base: ZEROS, codec: 'relay-check', examples: 1, steps: 1 };
      const lifetime = { createdAt: nowSeconds(), expiresAt: expiration() };
      return buildManifest(own, randomBytes(payloadBytes), lifetime, sha256).draft;
    },
    chunk() {
      const bytes = randomBytes(64);
      const { root } = chunkTree(bytes, sha256);
      const place = { root, index: 0, count: 1, bytes: bytes.length, data: toBase64(bytes) };
      return chunk.build({ ...place, expiration: expiration() }, nowSeconds());
    },
    presence() {
      const said = { run, round: 0, interval: 60, slot: run, scope: [run] };
      return presence.build({ ...said, expiration: expiration() }, nowSeconds());
    },
    heartbeat() {
      const said = { run, worker: publicKey, round: 0, interval: 60, leaving: true as const };
      const built = heartbeat.build({ ...said, scope: true }, nowSeconds());
      return { ...built, tags: [...built.tags, ['expiration', String(expiration())]] };
    },
    gradient: () => draft(gradient.kind, [['d', `run:${run}:worker:${publicKey}:round:0`]]),
    ephemeral: () => draft(27_811, []),
    padded(kind, bytes) {
      const slot = kind >= 30_000 ? [['d', `${run}:${bytes}`]] : [];
      const empty = draft(kind, slot);
      const room = Math.max(0, bytes - signedEventBytes(empty));
      return { ...empty, content: toBase64(randomBytes(room)).slice(0, room) };
    },
    deletion(events) {
      const kept = events.filter(({ kind }) => kind < 20_000 || kind >= 30_000);
      const kinds = [...new Set(kept.map(({ kind }) => kind))];
      return draft(5, [
        ...kept.map(({ id }) => ['e', id]),
        ...kinds.map((kind) => ['k', String(kind)]),
      ]);
    },
  };
}

/** Random bytes do not compress, whatever a relay does to what it stores. */
function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const most = 65_536; // of one call
  for (let at = 0; at < length; at += most) {
    crypto.getRandomValues(bytes.subarray(at, Math.min(length, at + most)));
  }
  return bytes;
}

/** Whether a relay gave back the event it was given; it may add fields and reorder them. */
export function isSame(found: unknown, event: SignedEvent): boolean {
  const parsed = parseEvent(found);
  if (!parsed.ok) return false;
  const { id, sig, kind, pubkey, created_at, content, tags } = parsed.value;
  return (
    id === event.id &&
    sig === event.sig &&
    kind === event.kind &&
    pubkey === event.pubkey &&
    created_at === event.created_at &&
    content === event.content &&
    JSON.stringify(tags) === JSON.stringify(event.tags)
  );
}
