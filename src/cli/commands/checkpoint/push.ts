/** `nostrain checkpoint push`: the chunks of a folder and their manifest to Blossom servers and other folders. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { utf8 } from '../../../base/bytes.ts';
import { systemClock } from '../../../base/clock.ts';
import { CheckpointError } from '../../../base/errors.ts';
import { createBlossomPlace } from '../../../checkpoint/http-place.ts';
import { type Manifest, manifestDigest, manifestText, piecesOf } from '../../../checkpoint/manifest.ts'; // biome-ignore format: one import
import type { Blob } from '../../../checkpoint/place.ts';
import { createAskHttp } from '../../../node/checkpoint/ask-http.ts';
import { chunkFile, MANIFEST_FILE, readManifest } from '../../../node/checkpoint/folder.ts';
import { createFolderPlace } from '../../../node/checkpoint/folder-place.ts';
import { nativeSha256 } from '../../../node/native-sha256.ts';
import { writeWhole } from '../../../node/whole-file.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { homeSigner } from '../../shared/member-flags.ts';

interface Flags {
  readonly to: readonly string[];
  readonly mirror?: string;
  readonly keyFile?: string;
  readonly secKey?: string;
}

/** The command. */
export const push = (): Command =>
  new Command('push')
    .description('store the chunks of a folder and their manifest on Blossom servers or in folders')
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .addOption(repeatable('--to <place>', 'https://… of a Blossom server, or a folder, repeatable').makeOptionMandatory()) // biome-ignore format: one option
    .option('--mirror <url>', 'let servers fetch from there what they have not got (BUD-04)')
    .option('--key-file <file>', 'secret key to sign uploads with (default: in your data folder)')
    .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it')
    .action(async (folder: string, flags: Flags) => {
      await interruptibly(async (signal) => {
        const manifest = await readManifest(folder);
        const signer = await homeSigner(flags, writeNote);
        for (const to of flags.to) {
          const stored = await pushTo(to, { folder, manifest, flags, signer, signal });
          writeOut(`${stored} chunks and the manifest are at ${to}\n`);
        }
        writeOut(`digest   ${manifestDigest(manifest, nativeSha256)}\n`);
      });
    });

interface Pushing {
  readonly folder: string;
  readonly manifest: Manifest;
  readonly flags: Flags;
  readonly signer: Parameters<typeof createBlossomPlace>[1]['signer'];
  readonly signal: AbortSignal;
}

/** How many chunks are there now; throws where one is not taken. */
async function pushTo(
  to: string,
  { folder, manifest, flags, signer, signal }: Pushing,
): Promise<number> {
  // biome-ignore format: one line
  const ask = createAskHttp({ isTrusted: true });
  const isAddress = /^https?:\/\//i.test(to);
  const blossom = isAddress ? createBlossomPlace(to, { ask, clock: systemClock, signer }) : undefined; // biome-ignore format: one line
  const place = blossom ?? createFolderPlace(to);
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
    throw new CheckpointError('checkpoint/lost', `chunk ${sha256} is not in ${folder}`, {
      hint: '`nostrain checkpoint unpack --mend` restores it, or `fetch` brings it',
      cause,
    });
  });
