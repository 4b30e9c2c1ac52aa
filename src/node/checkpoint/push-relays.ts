/**
 * Stores a packed file on relays: chunk events (kind 7811) of the whole, spread over them so that each takes its share, and then the event with
 * the manifest. What one relay refuses goes to another; how fast, and how large events may be, the relay set knows of each relay.
 */
import { open } from 'node:fs/promises';
import { CHUNK_BYTES } from '../../../kinds/chunk.ts';
import { packed } from '../../../kinds/packed.ts';
import { Recent } from '../../base/bounded.ts';
import { utf8 } from '../../base/bytes.ts';
import { CheckpointError } from '../../base/errors.ts';
import { type FileManifest, manifestText, RootHasher } from '../../network/chunks/manifest.ts';
import type { ChunkTree } from '../../network/chunks/payload.ts';
import { draftChunk, type Lifetime } from '../../network/chunks/payload.ts';
import type { SignedEvent, Signer } from '../../network/event.ts';
import { isTaken, wordsOf } from '../../network/transport/delivery.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { buildAddressed, publishAddressed } from '../../network/wire/addressed.ts';
import { createNativeSha256, nativeSha256 } from '../native/sha256.ts';
import { chunkFile, lostChunk } from './folder.ts';

export interface PushRelays {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly lifetime: Lifetime;
  readonly signal: AbortSignal;
  /** Relays that each chunk goes to, of all. */
  readonly copies: number;
  /** Events that some relay took, of all that are to go out. */
  onProgress?(taken: number, of: number): void;
}

/** What one relay has now. */
export interface PushedTo {
  readonly relay: string;
  readonly events: number;
  /** The words of its first refusal; empty where there was none. */
  readonly message: string;
}

/** Chunk events under way at one relay. */
const WINDOW = 16;
/** Signed events kept for the slower relays. */
const REMEMBERED = 256;

/** Throws a CheckpointError where a chunk is lost, or no relay takes one. */
export async function pushToRelays(
  folder: string,
  manifest: FileManifest,
  options: PushRelays,
): Promise<readonly PushedTo[]> {
  const { signal, relays, signer, lifetime } = options;
  const tree = await treeOf(folder, manifest, signal);
  const told = await new Push(folder, manifest, tree, options).run();
  const text = utf8(manifestText(manifest));
  const refused = await publishAddressed(buildAddressed(packed, text, lifetime, nativeSha256), {
    relays,
    lifetime,
    signal,
    sha256: nativeSha256,
    sign: signer.sign,
  });
  if (refused === undefined) return told;
  throw new CheckpointError('checkpoint/refused', `no relay takes the manifest: ${refused}`, {
    hint: 'chunks are out: hand the manifest.json on as a file, or name other relays with --to',
  });
}

/** The hash tree over the file, out of its chunks. */
async function treeOf(
  folder: string,
  manifest: FileManifest,
  signal: AbortSignal,
): Promise<ChunkTree> {
  if (manifest.root === null) {
    throw new CheckpointError('checkpoint/too-large', 'relays have no place for a file so long', {
      hint: 'files of more than 2.9 GB go to Blossom servers, holders and folders',
    });
  }
  const hasher = new RootHasher(createNativeSha256);
  for (let at = 0; at < manifest.bytes; at += manifest.chunkBytes) {
    signal.throwIfAborted();
    hasher.update(await readRange(folder, manifest, at, manifest.chunkBytes));
  }
  const tree = hasher.tree();
  if (tree?.root === manifest.root) return tree;
  throw new CheckpointError('checkpoint/other', `${folder} is not what its manifest says`, {
    hint: '`nostrain checkpoint verify` names what is changed',
  });
}

/** Bytes of the file, out of as many chunks as they lie in; fewer at its end. */
async function readRange(
  folder: string,
  { bytes, chunkBytes, chunks }: FileManifest,
  from: number,
  length: number,
): Promise<Uint8Array> {
  const buffer = new Uint8Array(Math.min(length, bytes - from));
  for (let have = 0; have < buffer.length; ) {
    const index = Math.floor((from + have) / chunkBytes);
    const at = from + have - index * chunkBytes;
    const { sha256 } = chunks[index]!;
    const handle = await open(chunkFile(folder, sha256)).catch((cause: unknown) => {
      throw lostChunk(sha256, folder, cause);
    });
    try {
      const wanted = Math.min(buffer.length - have, chunkBytes - at);
      const { bytesRead } = await handle.read(buffer, have, wanted, at);
      if (bytesRead === 0) throw lostChunk(sha256, folder, undefined);
      have += bytesRead;
    } finally {
      await handle.close();
    }
  }
  return buffer;
}

/** All chunk events of one file on their way. */
class Push {
  readonly #folder: string;
  readonly #manifest: FileManifest;
  readonly #tree: ChunkTree;
  readonly #options: PushRelays;
  readonly #signed = new Recent<Promise<SignedEvent>>(REMEMBERED);
  /** Of each chunk, the relays that have it, and those that were asked to. */
  readonly #held: Set<string>[];
  readonly #tried: Set<string>[];
  readonly #told: Map<string, { events: number; message: string }>;
  /** Relays that take nothing more. */
  readonly #closed = new Set<string>();
  readonly #copies: number;
  #taken = 0;

  constructor(folder: string, manifest: FileManifest, tree: ChunkTree, options: PushRelays) {
    this.#folder = folder;
    this.#manifest = manifest;
    this.#tree = tree;
    this.#options = options;
    this.#held = Array.from({ length: tree.count }, () => new Set());
    this.#tried = Array.from({ length: tree.count }, () => new Set());
    const { relays } = options.relays;
    this.#copies = Math.min(options.copies, relays.length);
    this.#told = new Map(relays.map((relay) => [relay, { events: 0, message: '' }]));
  }

  async run(): Promise<readonly PushedTo[]> {
    const { signal } = this.#options;
    for (;;) {
      const shares = this.#shares();
      if (shares.size === 0) break;
      await Promise.all([...shares].map(([relay, indices]) => this.#sendTo(relay, indices)));
      signal.throwIfAborted();
    }
    const nowhere = this.#held.filter(({ size }) => size === 0).length;
    const told = [...this.#told].map(([relay, each]) => ({ relay, ...each }));
    if (nowhere === 0) return told;
    const words = told.flatMap(({ relay, message }) =>
      message === '' ? [] : `${relay}: ${message}`,
    );
    throw new CheckpointError(
      'checkpoint/refused',
      `no relay took ${nowhere} of ${this.#tree.count} chunks: ${words.join('; ')}`,
      { hint: 'name more relays with --to; the same command sends what is missing' },
    );
  }

  /** Chunks that are not yet at as many relays as they should be, by the relays that may take them; in turn, so that all have the same share. */
  #shares(): Map<string, number[]> {
    const { relays } = this.#options.relays;
    const shares = new Map<string, number[]>();
    for (const [index, held] of this.#held.entries()) {
      const tried = this.#tried[index]!;
      for (let i = 0, missing = this.#copies - held.size; i < relays.length && missing > 0; i++) {
        const relay = relays[(index + i) % relays.length]!;
        if (this.#closed.has(relay) || tried.has(relay)) continue;
        const share = shares.get(relay) ?? [];
        share.push(index);
        shares.set(relay, share);
        missing--;
      }
    }
    return shares;
  }

  async #sendTo(relay: string, indices: readonly number[]): Promise<void> {
    const { relays, signal } = this.#options;
    const told = this.#told.get(relay)!;
    let next = 0;
    const sendSome = async (): Promise<void> => {
      while (next < indices.length && !this.#closed.has(relay) && !signal.aborted) {
        const index = indices[next++]!;
        const [outcome] = await relays.publish(await this.#eventOf(index), {
          signal,
          only: [relay],
        });
        this.#tried[index]!.add(relay);
        if (outcome && isTaken(outcome)) {
          told.events++;
          this.#hold(index, relay);
          continue;
        }
        told.message ||= wordsOf(outcome, relay, relays);
        if (outcome === undefined || outcome.attempts === 0) this.#closed.add(relay);
      }
    };
    await Promise.all(Array.from({ length: Math.min(WINDOW, indices.length) }, sendSome));
  }

  #hold(index: number, relay: string): void {
    this.#held[index]!.add(relay);
    this.#taken++;
    this.#options.onProgress?.(this.#taken, this.#tree.count * this.#copies);
  }

  #eventOf(index: number): Promise<SignedEvent> {
    const known = this.#signed.get(String(index));
    if (known) return known;
    const { signer, lifetime } = this.#options;
    const made = readRange(this.#folder, this.#manifest, index * CHUNK_BYTES, CHUNK_BYTES).then(
      (data) => signer.sign(draftChunk(this.#tree, index, data, lifetime)),
    );
    this.#signed.set(String(index), made);
    return made;
  }
}
