/** The text and the base of a lobby: packed by its host, and sent over the relays or to a Blossom server. */
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
import { filesOfModel } from '../../../node/pretrained/hub.ts';
import { writeForRun } from '../../../node/pretrained/imported-file.ts';
import { isImported } from '../../../run/data-forms.ts';
import type { RunSpec } from '../../../run/spec/run-spec.ts';
import { writeNote } from '../../../terminal/output.ts';
import { pushTo } from '../../shared/chunks.ts';

/** Largest file that travels over relays of a local network, and over public ones, which take few events. */
const MOST_NEAR_BYTES = 2 ** 24;
const MOST_PUBLIC_BYTES = 2 ** 21;
const PIECE_BYTES = 2 ** 20;
const KEPT_SECONDS = 60 * 86_400;
const REDUNDANCY = 2;

/** A file that the host passes on, under its name in the spec. */
interface NamedFile {
  readonly name: string;
  readonly path: string;
}

interface SharedFile extends NamedFile {
  /** The folder with its chunks. */
  readonly folder: string;
  readonly manifest: FileManifest;
}

/** What the host passes on: the text, and the base if friends get it nowhere else. */
export interface SharedFiles {
  readonly each: readonly SharedFile[];
  /** The text as attendees download it; undefined if they get it elsewhere. */
  readonly offer: LobbyText | undefined;
  /** Path of the text on this machine. */
  readonly corpus: string | undefined;
}

interface Packing {
  readonly name: string;
  readonly corpus: string | undefined;
  /** The base as the host typed it. */
  readonly base: string | undefined;
  /** A Blossom server that stores the files instead of the relays. */
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
 * Packs the text and the base of a run, unless friends get them elsewhere. Throws a ConfigError (`lobby/text`) for a
 * text that is too large for the relays.
 */
export async function packFiles(spec: RunSpec, packing: Packing): Promise<SharedFiles> {
  const text = await textOf(spec, packing);
  const each: SharedFile[] = [];
  for (const file of [...text, ...(await baseOf(spec, packing))]) {
    const folder = join(lobbyFolder(packing.name), 'files', file.name);
    const pack = { chunkBytes: PIECE_BYTES, erasure: null, threads: 0, signal: packing.signal };
    each.push({ ...file, folder, manifest: await packFile(file.path, folder, pack) });
  }
  const [first] = text.length > 0 ? each : [];
  const offer = first && {
    manifest: manifestDigest(first.manifest, nativeSha256),
    bytes: first.manifest.bytes,
    name: first.name,
  };
  return { each, offer, corpus: first?.path ?? packing.corpus };
}

/** Returns the most bytes of one kind that these relays carry. */
const mostOver = (relays: readonly string[]): number =>
  relays.every(isPrivateRelay) ? MOST_NEAR_BYTES : MOST_PUBLIC_BYTES;

/** Returns the text to pass on; none if friends need no file, have it, or download it from its address. */
async function textOf(
  { data, dataFrom }: RunSpec,
  { name, corpus, mirror, relays, signal }: Packing,
): Promise<readonly NamedFile[]> {
  if (data.kind !== 'corpus') return [];
  if (dataFrom !== '') {
    writeNote(`your friends download the text, ${formatBytes(data.bytes)}, from ${dataFrom}`);
    return [];
  }
  if (corpus !== undefined && (await kindOf(corpus)) === 'folder') {
    writeNote(
      'pictures do not travel: each friend needs the same folder and names it with --corpus',
    );
    return [];
  }
  const most = mostOver(relays);
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
  return [{ name: `text${/^\.\w{1,15}$/.exec(extname(path))?.[0] ?? '.txt'}`, path }];
}

/** Returns the files of the model to pass on; none if friends download it from the hub, or have to bring it. */
async function baseOf(
  { start, training }: RunSpec,
  { base = '', mirror, relays }: Packing,
): Promise<readonly NamedFile[]> {
  if (start === null) return [];
  const bytes = start.files.reduce((sum, file) => sum + file.bytes, 0);
  const size = formatBytes(bytes);
  if (start.from.length > 0) {
    writeNote(`your friends download the base, ${size}, from ${start.from.join(' or ')}`);
    return [];
  }
  if (mirror === undefined && bytes > mostOver(relays)) {
    writeNote(
      `the base, ${size}, does not travel: each friend needs the same files and names them with ` +
        '--base; or store it on a Blossom server with --mirror https://…',
    );
    return [];
  }
  const folder = isImported(training) ? await writeForRun({ ...training, base }) : base;
  return filesOfModel(folder, start.files);
}

/** Writes the default text to the folder of the lobby. Returns its path. */
async function writeDefault(name: string, sha256: string, signal: AbortSignal): Promise<string> {
  const { read } = await openNamedCorpus({ fixed: { sha256 }, onNotice: () => undefined, signal });
  const path = join(lobbyFolder(name), 'text.txt');
  await writeFile(path, read());
  return path;
}

/** Returns the spec with the packed files, so that joiners find them. */
export const withFiles = (
  spec: RunSpec,
  { each }: SharedFiles,
  { mirror, signal }: Pick<Packing, 'mirror' | 'signal'>,
): Promise<RunSpec> => {
  const packed = each.map(({ name, folder }) => `${name}=${folder}`);
  const packedAt = mirror === undefined ? [] : [mirror];
  return withPacked(spec, { packed, packedAt }, signal);
};

/** Stores the files on the relays, or at the mirror. */
export async function pushFiles(
  { each }: SharedFiles,
  mirror: string | undefined,
  reach: { readonly relays: RelaySet; readonly signer: Signer; readonly signal: AbortSignal },
): Promise<void> {
  const { signer, signal } = reach;
  const createdAt = Math.floor(systemClock.now() / 1000);
  const lifetime = { createdAt, expiresAt: createdAt + KEPT_SECONDS };
  for (const { name, folder, manifest } of each) {
    writeNote(`sending ${name}, ${formatBytes(manifest.bytes)}, to ${mirror ?? 'the relays'}`);
    if (mirror === undefined) {
      await pushToRelays(folder, manifest, { ...reach, lifetime, redundancy: REDUNDANCY });
    } else {
      await pushTo(mirror, { folder, manifest, signer, signal, flags: {} });
    }
  }
}
