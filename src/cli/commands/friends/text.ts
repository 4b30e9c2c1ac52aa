/** The training data of a lobby: packed by its host, sent over the relays, fetched by attendees while they wait. */
import { writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { systemClock } from '../../../base/async.ts';
import { ConfigError } from '../../../base/errors.ts';
import { formatBytes } from '../../../base/numbers.ts';
import type { LobbyText } from '../../../friends/lobby.ts';
import type { FileManifest } from '../../../network/chunks/manifest.ts';
import { manifestDigest } from '../../../network/chunks/manifest.ts';
import type { Signer } from '../../../network/event.ts';
import type { RelaySet } from '../../../network/transport/relay-set.ts';
import { isPrivateRelay } from '../../../network/transport/relay-urls.ts';
import { packFile } from '../../../node/checkpoint/pack.ts';
import { pushToRelays } from '../../../node/checkpoint/push-relays.ts';
import { openNamedCorpus } from '../../../node/data/sources.ts';
import { withPacked } from '../../../node/data/spec-data.ts';
import { kindOf } from '../../../node/files/atomic-file.ts';
import { lobbyFolder } from '../../../node/files/kept-lobby.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { writeNote } from '../../../terminal/output.ts';
import { pushTo } from '../../shared/chunks.ts';

/** Largest file that travels over relays of a local network, and over public ones, which take few events. */
const MOST_NEAR_BYTES = 2 ** 24;
const MOST_PUBLIC_BYTES = 2 ** 21;
const PIECE_BYTES = 2 ** 20;
const KEPT_SECONDS = 60 * 86_400;
const REDUNDANCY = 2;

/** Training data that the host passes on. */
export interface SharedText {
  /** The file itself, and the folder with its chunks. */
  readonly path: string;
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly offer: LobbyText;
}

interface Packing {
  readonly name: string;
  readonly corpus: string | undefined;
  /** A Blossom server that stores the file instead of the relays. */
  readonly mirror: string | undefined;
  readonly relays: readonly string[];
  readonly signal: AbortSignal;
}

/**
 * Returns the address of a dataset file on Hugging Face for `hf:datasets/OWNER/NAME[@REVISION]/FILE`; any other name as
 * it is.
 */
export function addressOf(corpus: string | undefined): string | undefined {
  const [, dataset, revision = 'main', file] =
    /^hf:datasets\/([\w.-]+\/[\w.-]+)(?:@([\w.-]+))?\/(.+)$/.exec(corpus ?? '') ?? [];
  if (dataset === undefined) return corpus;
  return `https://huggingface.co/datasets/${dataset}/resolve/${revision}/${file}`;
}

/**
 * Packs the data that all workers train on. Returns undefined if attendees need no file or get it from its address.
 * Throws a ConfigError (`lobby/text`) if it is too large for the relays.
 */
export async function packText(spec: RunSpec, packing: Packing): Promise<SharedText | undefined> {
  const { name, corpus, mirror, relays, signal } = packing;
  const { data, dataFrom } = spec;
  if (data.kind !== 'corpus' || dataFrom !== '') return undefined;
  if (corpus !== undefined && (await kindOf(corpus)) === 'folder') {
    writeNote(
      'pictures do not travel: each friend needs the same folder and names it with --corpus',
    );
    return undefined;
  }
  const most = relays.every(isPrivateRelay) ? MOST_NEAR_BYTES : MOST_PUBLIC_BYTES;
  if (data.bytes > most && mirror === undefined) {
    throw new ConfigError(
      'lobby/text',
      `the text has ${formatBytes(data.bytes)}, and these relays carry ${formatBytes(most)}`,
      {
        hint:
          'name it by an address (--corpus https://… or hf:datasets/owner/name/file), or store ' +
          'it on a Blossom server: --mirror https://…',
      },
    );
  }
  const path = corpus ?? (await writeDefault(name, data.sha256, signal));
  const folder = join(lobbyFolder(name), 'text');
  const pack = { chunkBytes: PIECE_BYTES, erasure: null, threads: 0, signal };
  const manifest = await packFile(path, folder, pack);
  const offer = {
    manifest: manifestDigest(manifest, nativeSha256),
    bytes: manifest.bytes,
    name: `text${/^\.\w{1,15}$/.exec(extname(path))?.[0] ?? '.txt'}`,
  };
  return { path, folder, manifest, offer };
}

/** Writes the default text to the folder of the lobby. Returns its path. */
async function writeDefault(name: string, sha256: string, signal: AbortSignal): Promise<string> {
  const { read } = await openNamedCorpus({ fixed: { sha256 }, onNotice: writeNote, signal });
  const path = join(lobbyFolder(name), 'text.txt');
  await writeFile(path, read());
  return path;
}

/** Returns the spec with the packed data, so that joiners find it. */
export const withText = (
  spec: RunSpec,
  text: SharedText | undefined,
  { mirror, signal }: Pick<Packing, 'mirror' | 'signal'>,
): Promise<RunSpec> => {
  const packed = text === undefined ? [] : [text.folder];
  const packedAt = mirror === undefined ? [] : [mirror];
  return withPacked(spec, { packed, packedAt, corpus: text?.path ?? '' }, signal);
};

/** Stores the data on the relays, or at the mirror. */
export async function pushText(
  { folder, manifest, offer }: SharedText,
  mirror: string | undefined,
  reach: { readonly relays: RelaySet; readonly signer: Signer; readonly signal: AbortSignal },
): Promise<void> {
  const { signer, signal } = reach;
  const where = mirror ?? 'the relays';
  writeNote(`sending the text, ${formatBytes(offer.bytes)}, to ${where}`);
  if (mirror !== undefined) {
    await pushTo(mirror, { folder, manifest, signer, signal, flags: {} });
    return;
  }
  const createdAt = Math.floor(systemClock.now() / 1000);
  const lifetime = { createdAt, expiresAt: createdAt + KEPT_SECONDS };
  await pushToRelays(folder, manifest, { ...reach, lifetime, redundancy: REDUNDANCY });
}
