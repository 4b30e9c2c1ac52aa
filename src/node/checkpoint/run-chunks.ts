/** Checkpoints of a run on the Blossom servers that its spec names: uploaded under the worker's key, fetched into its folder so that a kill loses nothing. */
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { utf8 } from '../../base/bytes.ts';
import { systemClock } from '../../base/clock.ts';
import { CheckpointError } from '../../base/errors.ts';
import type { CheckpointChunks } from '../../certified/checkpoint-chunks.ts';
import { createBlossomPlace } from '../../checkpoint/http-place.ts';
import { manifestDigest, manifestText } from '../../checkpoint/manifest.ts';
import type { Signer } from '../../network/event.ts';
import { nativeSha256 } from '../native-sha256.ts';
import { createAskHttp } from './ask-http.ts';
import { fetchFolder } from './fetch-folder.ts';
import { findManifest } from './find-manifest.ts';
import { chunkFile } from './folder.ts';
import { openPlaces } from './places.ts';

export interface RunChunksOptions {
  readonly places: readonly string[];
  readonly signer: Signer;
  /** Where a fetch keeps what it has so far. */
  readonly folder: string;
  /** The spec may name private addresses: a person said so. */
  readonly allowPrivate: boolean;
  onNotice(message: string): void;
}

/** Bytes that may come for every byte of a checkpoint. */
const EXCESS = 2;

/** Places are a stranger's word: public ones only, unless that is allowed. */
export function createRunChunks(options: RunChunksOptions): CheckpointChunks {
  const { places, signer, folder, allowPrivate, onNotice } = options;
  const named = places.map((text) => ({ text, isTrusted: false }));
  const open = async (signal: AbortSignal) => {
    const connection = { openTimeoutMs: 0, retry: { maxAttempts: 1, initialMs: 0, maxMs: 0, multiplier: 1, jitter: 'none' as const } }; // biome-ignore format: one line
    const opened = await openPlaces(named, undefined, { connection, signal, allowPrivate });
    for (const { name, reason } of opened.refused) onNotice(`${name} is not asked: ${reason}`);
    return opened;
  };
  return {
    async store({ manifest, chunks }, signal) {
      const { places: usable } = await open(signal);
      const text = utf8(manifestText(manifest));
      const sha256 = manifestDigest(manifest, nativeSha256);
      const ask = createAskHttp({ isTrusted: false, allowPrivate });
      const storeAt = async (url: string) => {
        const place = createBlossomPlace(url, { ask, clock: systemClock, signer });
        for (const [hash, bytes] of chunks) {
          await place.store?.({ sha256: hash, bytes: bytes.length, offset: 0 }, bytes, signal);
        }
        await place.store?.({ sha256, bytes: text.length, offset: undefined }, text, signal);
      };
      const tried = await Promise.allSettled(usable.map(({ name }) => storeAt(name)));
      const failed = tried.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
      if (failed.length === tried.length) throw failed[0] ?? noPlace();
      for (const error of failed) onNotice((error as Error).message);
    },
    async fetch(digest, { bytes, root }, signal = new AbortController().signal) {
      const { places: usable } = await open(signal);
      const { manifest } = await findManifest(digest, usable, signal);
      if (manifest.bytes !== bytes || manifest.root !== root) {
        throw new CheckpointError('checkpoint/other', 'its manifest is of another state', {
          hint: 'relays are asked instead; whoever published this checkpoint said something false',
        });
      }
      const into = join(folder, `checkpoint-${digest.slice(0, 16)}`);
      await fetchFolder(manifest, into, { places: usable, signal, mostBytes: EXCESS * bytes + 2 ** 20 }); // biome-ignore format: one line
      const model = new Uint8Array(bytes);
      for (const [i, { sha256 }] of manifest.chunks.entries()) {
        await readInto(chunkFile(into, sha256), model.subarray(i * manifest.chunkBytes, (i + 1) * manifest.chunkBytes)); // biome-ignore format: one line
      }
      await rm(into, { recursive: true, force: true });
      return model;
    },
  };
}

const noPlace = (): CheckpointError =>
  new CheckpointError('checkpoint/nowhere', 'no place of this run may be asked', {
    hint: '--allow-private-relays lets a spec name private addresses',
  });

async function readInto(file: string, target: Uint8Array): Promise<void> {
  const handle = await open(file);
  try {
    for (let at = 0; at < target.length; ) {
      const { bytesRead } = await handle.read(target, at, target.length - at);
      if (bytesRead === 0) return;
      at += bytesRead;
    }
  } finally {
    await handle.close();
  }
}
