/** Probe events: those of a run as it would send them, marked, expiring soon, and of a run that nobody plays. */
import { randomBytes } from 'node:crypto';
import { CHUNK_BYTES, chunk } from '../../kinds/chunk.ts';
import { presence } from '../../kinds/presence.ts';
import { toBase64 } from '../base/bytes.ts';
import { chunkTree } from '../network/chunks/merkle.ts';
import type { EventDraft, SignedEvent } from '../network/event.ts';
import { buildManifest } from '../network/wire/manifests.ts';
import { nativeSha256 } from '../node/native-sha256.ts';
import { signedEventBytes } from '../python/wire/gradients.ts';
import { buildHeartbeat } from '../python/wire/heartbeats.ts';

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
  const run = `relay-check-${randomBytes(4).toString('hex')}`;
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
      return buildManifest(own, randomBytes(payloadBytes), lifetime, nativeSha256).draft;
    },
    chunk() {
      const bytes = randomBytes(64);
      const { root } = chunkTree(bytes, nativeSha256);
      const place = { root, index: 0, count: 1, bytes: bytes.length, data: toBase64(bytes) };
      return chunk.build({ ...place, expiration: expiration() }, nowSeconds());
    },
    presence() {
      const said = { run, round: 0, interval: 60, slot: run, scope: [run] };
      return presence.build({ ...said, expiration: expiration() }, nowSeconds());
    },
    heartbeat() {
      const beat = { worker: publicKey, round: 0, intervalSeconds: 60, createdAt: nowSeconds() };
      const none = { examples: undefined, digest: undefined, cohort: undefined, leaving: true };
      const built = buildHeartbeat(run, { ...beat, ...none, capabilities: [], relays: [] });
      return { ...built, tags: [...built.tags, ['expiration', String(expiration())]] };
    },
    gradient: () => draft(33_333, [['d', `run:${run}:worker:${publicKey}:round:0`]]),
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
