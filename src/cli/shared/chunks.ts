/**
 * Downloads chunked files that a run spec lists or a user names by digest, and stores folders of chunks on relays, on
 * Blossom servers and in folders.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { isHex32, utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes, formatCount, formatSeconds } from '../../base/numbers.ts';
import { createSlowReporter } from '../../base/slow.ts';
import type { FetchEvent } from '../../network/chunks/fetch-options.ts';
import { createBlossomSource } from '../../network/chunks/http-source.ts';
import {
  type FileManifest,
  manifestDigest,
  manifestText,
  piecesOf,
} from '../../network/chunks/manifest.ts';
import type { Blob } from '../../network/chunks/source.ts';
import type { Signer } from '../../network/event.ts';
import { isRelayUrl } from '../../network/transport/relay-urls.ts';
import {
  type BringOptions,
  bringFile,
  type FileRequest,
} from '../../node/checkpoint/bring-file.ts';
import {
  chunkFile,
  createFolderSource,
  lostChunk,
  MANIFEST_FILE,
  readManifest,
} from '../../node/checkpoint/folder.ts';
import { pushToRelays } from '../../node/checkpoint/push-relays.ts';
import type { NamedSource } from '../../node/checkpoint/sources.ts';
import { writeAtomically } from '../../node/files/atomic-file.ts';
import { dataHome } from '../../node/files/data-home.ts';
import { homeSigner } from '../../node/files/keys.ts';
import type { TrainingFiles } from '../../node/join/join-run.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { createAskHttp } from '../../node/net/ask-http.ts';
import type { RelayReach } from '../../node/net/relays.ts';
import { SEALED_FILE } from '../../run/chunked-files.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { hashBase } from '../../run/spec/start.ts';
import { type ConnectionFlags, connectionOf } from '../../terminal/connection.ts';
import { type FlagValues, several, whole, withDefault } from '../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import type { WorkerFlags } from '../../terminal/worker-flags.ts';
import { keyFlags } from './signed-document.ts';
import { withRelays } from './with-relays.ts';

type FetchFlags = ConnectionFlags &
  Pick<FileFetchFlags, 'filesFrom' | 'mostDownload' | 'allowPrivateRelays'>;

/** Default limit for a download, 8 GiB; --most-download raises it. */
const MOST_BYTES = 2 ** 33;

/** Flags of commands that download what a spec names. */
export const fetchFlags = {
  filesFrom: several(
    '<source>',
    'source of a text or base that is named by its hash: https://…, wss://… or a folder; ' +
      'repeatable',
  ),
  mostDownload: withDefault(
    whole('<bytes>', 'maximum bytes of such a file', 1),
    MOST_BYTES,
    formatBytes(MOST_BYTES),
  ),
};

export type FileFetchFlags = WorkerFlags &
  FlagValues<typeof fetchFlags> & { readonly allowPrivateRelays?: boolean };

interface Reach {
  /** The relays of the run, and whether they come from an untrusted address. */
  readonly relays: readonly string[];
  readonly publicOnly?: boolean | undefined;
  readonly signal: AbortSignal;
}

/**
 * Downloads the corpus and the base: files that the worker names by a manifest digest, and those in `files` of the spec
 * that it does not name. Returns local paths.
 */
export async function fetchFiles(
  run: Pick<RunSpec, 'files' | 'data' | 'start'> | undefined,
  localPaths: TrainingFiles,
  flags: FetchFlags,
  reach: Reach,
): Promise<TrainingFiles> {
  const bring = (wanted: FileRequest, folder: string, isByHash: boolean) =>
    bringFile(wanted, fetchOptions(flags, reach, run, { folder, isByHash }));
  const named = (text: string | undefined, folder: string, name: string) =>
    text !== undefined && isHex32(text) ? bring({ manifest: text, name }, folder, true) : text;
  const files = run?.files?.each ?? [];
  const text = run?.data.kind === 'corpus' ? run.data.sha256 : undefined;
  const ofCorpus = files.find(({ sha256 }) => sha256 === text);
  const corpus =
    localPaths.corpus === undefined && ofCorpus
      ? await bring(ofCorpus, 'corpora', true)
      : await named(localPaths.corpus, 'corpora', 'text.txt');
  const ofBase = files.filter((file) => file !== ofCorpus && file.name !== SEALED_FILE);
  if (localPaths.base !== undefined || !run?.start || ofBase.length === 0) {
    return { corpus, base: await named(localPaths.base, 'models', 'model.gguf') };
  }
  const folder = join('models', `chunks-${hashBase(run.start).slice(0, 16)}`);
  let base = join(dataHome(), folder);
  for (const file of ofBase) {
    const path = await bring(file, folder, false);
    if (file.name.endsWith('.gguf')) base = path;
  }
  return { corpus, base };
}

/** Downloads one file by the digest of its manifest into the folder of texts. Returns its path. */
export const fetchText = (
  wanted: FileRequest,
  flags: FetchFlags,
  reach: Reach,
  run?: Pick<RunSpec, 'files'>,
): Promise<string> =>
  bringFile(wanted, fetchOptions(flags, reach, run, { folder: 'corpora', isByHash: true }));

function fetchOptions(
  flags: FetchFlags,
  { relays, publicOnly, signal }: Reach,
  run: Pick<RunSpec, 'files'> | undefined,
  { folder, isByHash }: Pick<BringOptions, 'folder' | 'isByHash'>,
): BringOptions {
  const { filesFrom = [] } = flags;
  const sources: readonly NamedSource[] = [
    ...filesFrom.map((text) => ({ text, isTrusted: true })),
    ...(run?.files?.at ?? []).map((text) => ({ text, isTrusted: false })),
    ...relays.map((text) => ({ text, isTrusted: publicOnly !== true })),
  ];
  if (sources.length === 0) {
    throw new ConfigError(
      'flag/files-from',
      'there is no source for a file that is named by its hash',
      {
        hint:
          'name a source of its chunks: --files-from (replay: --from) https://…, wss://… or ' +
          'a folder',
      },
    );
  }
  return {
    sources,
    folder: join(dataHome(), folder),
    isByHash,
    signal,
    mostBytes: flags.mostDownload,
    connection: connectionOf(flags),
    allowPrivate: flags.allowPrivateRelays === true,
    home: dataHome(),
    onNotice: writeNote,
    report: reportFetch(createSlowReporter(writeNote)),
  };
}

/** Downloads the event file of a run by the digest of its manifest, from the sources that the user names. */
export const fetchEvents = (
  manifest: string,
  from: readonly string[],
  flags: ConnectionFlags,
  signal: AbortSignal,
): Promise<string> => {
  const limits = { ...flags, filesFrom: from, mostDownload: MOST_BYTES };
  const where = { folder: 'archives', isByHash: true };
  const options = fetchOptions(limits, { relays: [], signal }, undefined, where);
  return bringFile({ manifest, name: 'run.jsonl' }, options);
};

/** Downloads the model that a run starts from. Returns its path; undefined if the spec names no chunks of it. */
export const fetchStart = async (
  run: Pick<RunSpec, 'files' | 'data' | 'start'>,
  from: readonly string[],
  flags: ConnectionFlags,
  reach: Reach,
): Promise<string | undefined> => {
  const limits = { ...flags, filesFrom: from, mostDownload: MOST_BYTES };
  return (await fetchFiles(run, { corpus: '' }, limits, reach)).base;
};

/** Reports download progress through `report`; the failure of a source is printed to stderr at once. */
export const reportFetch =
  (report: (words: string) => void = writeNote) =>
  (event: FetchEvent): void => {
    if ('source' in event) {
      const what = event.type === 'demoted' ? 'is no longer used' : 'does not answer';
      writeNote(`${event.source} ${what}: ${event.message}`);
      return;
    }
    const { bytes, of, perSecond } = event;
    const left = perSecond > 0 ? `, ${formatSeconds((of - bytes) / perSecond)} left` : '';
    report(`${formatBytes(bytes)} of ${formatBytes(of)}, ${formatBytes(perSecond)}/s${left}`);
  };

/** Flags for publishing chunks, and the signing key. */
export const pushFlags = {
  copies: withDefault(whole('<n>', 'number of relays that get each chunk event', 1, 64), 2),
  days: withDefault(whole('<n>', 'days after which relays may delete the events', 1, 3650), 30),
  ...keyFlags,
};

export type PushFlags = FlagValues<typeof pushFlags> &
  ConnectionFlags & { readonly to?: readonly string[]; readonly mirror?: string };

/** Stores the chunks and the manifest of each folder at every mirror of `--to`, and prints the result. */
export async function pushFolders(
  folders: readonly string[],
  flags: PushFlags,
  signal: AbortSignal,
): Promise<void> {
  const { to = [] } = flags;
  const signer = await homeSigner(flags, writeNote);
  for (const folder of folders) {
    const manifest = await readManifest(folder);
    const pushing = { folder, manifest, flags, signer, signal };
    const relays = to.filter(isRelayUrl);
    if (relays.length > 0) await pushToAll(relays, pushing);
    for (const mirror of to.filter((each) => !isRelayUrl(each))) {
      const stored = await pushTo(mirror, pushing);
      writeOut(`${stored} chunks and the manifest are at ${mirror}\n`);
    }
    writeOut(`digest   ${manifestDigest(manifest, nativeSha256)}\n`);
  }
}

const DAY_SECONDS = 86_400;

/** Distributes the chunks over relays, and prints how many each relay has. */
async function pushToAll(
  urls: readonly string[],
  { folder, flags, signer, signal }: Pushing & { readonly flags: PushFlags },
): Promise<void> {
  const reach = { connection: connectionOf(flags), signer, signal };
  for (const { relay, taken, message } of await pushChunks(folder, urls, flags, reach)) {
    const trouble = message === '' ? '' : ` (${message})`;
    writeOut(`${formatCount(taken)} chunk events are at ${relay}${trouble}\n`);
  }
}

/** Distributes the chunks of a folder over relays. Returns how many events each relay has taken. */
export async function pushChunks(
  folder: string,
  urls: readonly string[],
  { copies, days }: Pick<PushFlags, 'copies' | 'days'>,
  reach: RelayReach & { readonly signer: Signer },
) {
  const { signer, signal } = reach;
  const report = createSlowReporter(writeNote);
  const startedMs = systemClock.now();
  const createdAt = Math.floor(startedMs / 1000);
  const manifest = await readManifest(folder);
  return withRelays(urls, reach, ({ relays }) =>
    pushToRelays(folder, manifest, {
      relays,
      signer,
      lifetime: { createdAt, expiresAt: createdAt + days * DAY_SECONDS },
      signal,
      redundancy: copies,
      onProgress(taken, of) {
        const seconds = (systemClock.now() - startedMs) / 1000;
        const left = formatSeconds((seconds * (of - taken)) / taken);
        report(`${formatCount(taken)} of ${formatCount(of)} events sent, ${left} left`);
      },
    }),
  );
}

interface Pushing {
  readonly folder: string;
  readonly manifest: FileManifest;
  readonly flags: Pick<PushFlags, 'mirror'>;
  readonly signer: Signer;
  readonly signal: AbortSignal;
}

/** Stores the chunks and the manifest at one mirror. Returns the number of chunks; throws if one is refused. */
export async function pushTo(
  to: string,
  { folder, manifest, flags, signer, signal }: Pushing,
): Promise<number> {
  const ask = createAskHttp({ isTrusted: true });
  const isAddress = /^https?:\/\//i.test(to);
  const blossom = isAddress
    ? createBlossomSource(to, { ask, clock: systemClock, signer })
    : undefined;
  const mirror = blossom ?? createFolderSource(to);
  const send = async (blob: Blob, bytes: () => Promise<Uint8Array>) => {
    if (blossom && flags.mirror !== undefined) await blossom.mirror(blob, flags.mirror, signal);
    else await mirror.store?.(blob, await bytes(), signal);
  };
  const pieces = new Map(piecesOf(manifest).map((piece) => [piece.sha256, piece]));
  for (const piece of pieces.values()) {
    signal.throwIfAborted();
    await send(piece, () => readChunk(folder, piece.sha256));
  }
  const text = utf8(manifestText(manifest));
  const sha256 = manifestDigest(manifest, nativeSha256);
  if (isAddress) await send({ sha256, bytes: text.length, offset: undefined }, async () => text);
  else {
    await writeAtomically(join(to, MANIFEST_FILE), text);
    // a folder with several files is searched by digest
    await send({ sha256, bytes: text.length, offset: undefined }, async () => text);
  }
  return pieces.size;
}

const readChunk = (folder: string, sha256: string): Promise<Uint8Array> =>
  readFile(chunkFile(folder, sha256)).catch((cause: unknown) => {
    throw lostChunk(sha256, folder, cause);
  });
