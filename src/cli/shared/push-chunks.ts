/** Stores the chunks of folders and their manifests on relays, Blossom servers and in other folders, for commands that do. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { systemClock } from '../../base/async.ts';
import { utf8 } from '../../base/bytes.ts';
import { formatCount, formatSeconds } from '../../base/numbers.ts';
import { createBlossomSource } from '../../network/chunks/http-source.ts';
import {
  type FileManifest,
  manifestDigest,
  manifestText,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import type { Blob } from '../../network/chunks/source.ts';
import { isRelayUrl } from '../../network/transport/relay-urls.ts';
import { createAskHttp } from '../../node/checkpoint/ask-http.ts';
import { chunkFile, lostChunk, MANIFEST_FILE, readManifest } from '../../node/checkpoint/folder.ts';
import { createFolderSource } from '../../node/checkpoint/folder-place.ts';
import { pushToRelays } from '../../node/checkpoint/push-relays.ts';
import { homeSigner } from '../../node/files/keys.ts';
import { writeWhole } from '../../node/files/whole-file.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { type ConnectionFlags, connectionOf } from '../../terminal/connection.ts';
import { whole } from '../../terminal/flags.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import { slowly } from './archive-source.ts';
import { withRelays } from './with-relays.ts';

/** Where chunks go, and how relays are dealt with. */
export interface PushFlags extends ConnectionFlags {
  readonly to?: readonly string[];
  readonly copies: number;
  readonly days: number;
  readonly keyFile?: string;
  readonly secKey?: string;
}

/** Adds `--copies`, `--days` and whose key it is. */
export const addPushFlags = (command: Command): Command =>
  command
    .addOption(
      whole('--copies <n>', 'relays that get each chunk event, of all named', 1, 64).default(2),
    )
    .addOption(
      whole('--days <n>', 'days after which relays may forget the events', 1, 3650).default(30),
    )
    .option('--key-file <file>', 'secret key to sign with (default: in your data folder)')
    .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it');

/** Stores the chunks of each folder, and their manifest, at every place of `--to`, and says so. */
export async function pushFolders(
  folders: readonly string[],
  flags: PushFlags & { readonly mirror?: string },
  signal: AbortSignal,
): Promise<void> {
  const { to = [] } = flags;
  const signer = await homeSigner(flags, writeNote);
  for (const folder of folders) {
    const manifest = await readManifest(folder);
    const pushing = { folder, manifest, flags, signer, signal };
    const relays = to.filter(isRelayUrl);
    if (relays.length > 0) await pushToAll(relays, pushing);
    for (const place of to.filter((each) => !isRelayUrl(each))) {
      const stored = await pushTo(place, pushing);
      writeOut(`${stored} chunks and the manifest are at ${place}\n`);
    }
    writeOut(`digest   ${manifestDigest(manifest, nativeSha256)}\n`);
  }
}

const DAY_SECONDS = 86_400;

/** Spreads the file over relays, and says what each has. */
async function pushToAll(urls: readonly string[], pushing: Pushing): Promise<void> {
  const { folder, manifest, flags, signer, signal } = pushing;
  const report = slowly();
  const startedMs = systemClock.now();
  const createdAt = Math.floor(startedMs / 1000);
  const lifetime = { createdAt, expiresAt: createdAt + flags.days * DAY_SECONDS };
  const reach = { connection: connectionOf(flags), signer, signal };
  const told = await withRelays(urls, reach, ({ relays }) =>
    pushToRelays(folder, manifest, {
      relays,
      signer,
      lifetime,
      signal,
      copies: flags.copies,
      onProgress(taken, of) {
        const seconds = (systemClock.now() - startedMs) / 1000;
        const left = formatSeconds((seconds * (of - taken)) / taken);
        report(`${formatCount(taken)} of ${formatCount(of)} events are out, ${left} left`);
      },
    }),
  );
  for (const { relay, events, message } of told) {
    const trouble = message === '' ? '' : ` (${message})`;
    writeOut(`${formatCount(events)} chunk events are at ${relay}${trouble}\n`);
  }
}

interface Pushing {
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly flags: PushFlags & { readonly mirror?: string };
  readonly signer: Parameters<typeof createBlossomSource>[1]['signer'];
  readonly signal: AbortSignal;
}

/** How many chunks are there now; throws where one is not taken. */
async function pushTo(
  to: string,
  { folder, manifest, flags, signer, signal }: Pushing,
): Promise<number> {
  const ask = createAskHttp({ isTrusted: true });
  const isAddress = /^https?:\/\//i.test(to);
  const blossom = isAddress
    ? createBlossomSource(to, { ask, clock: systemClock, signer })
    : undefined;
  const place = blossom ?? createFolderSource(to);
  const send = async (blob: Blob, bytes: () => Promise<Uint8Array>) => {
    if (blossom && flags.mirror !== undefined) await blossom.mirror(blob, flags.mirror, signal);
    else await place.store?.(blob, await bytes(), signal);
  };
  const pieces = new Map(piecesOf(manifest).map((piece) => [piece.sha256, piece]));
  for (const piece of pieces.values()) {
    signal.throwIfAborted();
    await send(piece, () => readChunk(folder, piece.sha256));
  }
  const text = utf8(manifestText(manifest));
  const sha256 = manifestDigest(manifest, nativeSha256);
  if (isAddress) await send({ sha256, bytes: text.length, offset: undefined }, async () => text);
  else await writeWhole(join(to, MANIFEST_FILE), text);
  return pieces.size;
}

const readChunk = (folder: string, sha256: string): Promise<Uint8Array> =>
  readFile(chunkFile(folder, sha256)).catch((cause: unknown) => {
    throw lostChunk(sha256, folder, cause);
  });
