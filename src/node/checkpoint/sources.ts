/**
 * Opens the sources that chunks are downloaded from (relays, HTTP addresses and folders) and finds the manifest of a
 * file at them. An address that a stranger named must be public; this is checked after every DNS lookup and redirect.
 */
import { stat } from 'node:fs/promises';
import { systemClock } from '../../base/async.ts';
import { isHex32, toHex } from '../../base/bytes.ts';
import { CheckpointError, ConfigError, safeLine } from '../../base/errors.ts';
import { createRelaySource } from '../../network/attachments/relay-source.ts';
import { findManifestOf, orBadManifest } from '../../network/chunks/find-manifest.ts';
import { createHttpSource } from '../../network/chunks/http-source.ts';
import { type FileManifest, MOST_MANIFEST_BYTES } from '../../network/chunks/manifest.ts';
import { type ChunkSource, readUpTo } from '../../network/chunks/source.ts';
import { createSigner } from '../../network/event.ts';
import { hintProblem, isRelayUrl, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { createSecretKey } from '../files/keys.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { createAskHttp } from '../net/ask-http.ts';
import { type Connection, connectRelays } from '../net/relays.ts';
import { createFolderSource, readManifest, readManifestFile } from './folder.ts';

export interface SourcesOptions {
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Allows private and loopback addresses, even if a stranger named them. */
  readonly allowPrivate?: boolean | undefined;
}

/** A source by its address, before it is opened. */
export interface NamedSource {
  /** An address (`https://…`, `wss://…`) or a folder. */
  readonly text: string;
  readonly isNear?: boolean | undefined;
  /** The user of this machine named it. Otherwise a stranger did, and only public addresses are allowed. */
  readonly isTrusted: boolean;
}

export interface OpenSources {
  readonly sources: readonly ChunkSource[];
  /** Sources that are not used, each with the reason. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  close(): Promise<void>;
}

/**
 * Opens the named sources. Relays serve manifests, and chunk events if the file is short enough for them; without a
 * manifest they are opened for manifests only.
 */
export async function openSources(
  named: readonly NamedSource[],
  manifest: FileManifest | undefined,
  options: SourcesOptions,
): Promise<OpenSources> {
  const sources: ChunkSource[] = [];
  const refused: { name: string; reason: string }[] = [];
  const relays: NamedSource[] = [];
  for (const each of named) {
    const problem = each.isTrusted || options.allowPrivate ? undefined : strangerProblem(each.text);
    if (problem !== undefined) refused.push({ name: withoutSecrets(each.text), reason: problem });
    else if (isRelayUrl(each.text)) relays.push(each);
    else sources.push(openSource(each, options));
  }
  const hasChunkEvents = manifest === undefined || manifest.root !== null;
  const opened: OpenSources[] = [];
  for (const isTrusted of [true, false]) {
    const some = relays.filter((each) => each.isTrusted === isTrusted);
    if (hasChunkEvents && some.length > 0) opened.push(await openRelays(some, manifest, options));
  }
  return {
    sources: [...sources, ...opened.flatMap((each) => each.sources)],
    refused: [...refused, ...opened.flatMap((each) => each.refused)],
    close: async () => void (await Promise.all(opened.map((each) => each.close()))),
  };
}

/** A file at named sources. */
export interface OpenFile extends Pick<OpenSources, 'sources' | 'close'> {
  readonly manifest: FileManifest;
}

/**
 * Opens the named sources for a file; if only its name or digest is given, finds its manifest first. Reports sources
 * that are not used. Throws as `findManifest` does.
 */
export async function openFile(
  what: string | FileManifest,
  named: readonly NamedSource[],
  options: SourcesOptions & { onNotice(message: string): void },
): Promise<OpenFile> {
  const reportSkipped = (refused: OpenSources['refused']) => {
    for (const { name, reason } of refused) options.onNotice(`${name} is skipped: ${reason}`);
  };
  let located: LocatedManifest;
  if (typeof what === 'string') {
    const first = await openSources(named, undefined, options);
    try {
      located = await findManifest(what, first.sources, options.signal);
    } catch (error) {
      reportSkipped(first.refused);
      throw error;
    } finally {
      await first.close();
    }
  } else located = { manifest: what, beside: undefined };
  const { manifest, beside } = located;
  const sourcesToOpen =
    beside === undefined ? named : [...named, { text: beside, isTrusted: true }];
  const { sources, refused, close } = await openSources(sourcesToOpen, manifest, options);
  reportSkipped(refused);
  return { manifest, sources, close };
}

/** Connects to relays that are all trusted or all not; each relay is one source. */
async function openRelays(
  named: readonly NamedSource[],
  manifest: FileManifest | undefined,
  { connection, signal, allowPrivate = false }: SourcesOptions,
): Promise<OpenSources> {
  const publicOnly = !named[0]!.isTrusted && !allowPrivate;
  const urls = named.map(({ text }) => text);
  const signer = createSigner(createSecretKey(), nativeCrypto);
  const set = await connectRelays(urls, { ...connection, publicOnly }, signer, signal).catch(
    (error: Error) => error,
  );
  if (set instanceof Error) {
    signal.throwIfAborted();
    const refused = named.map(({ text }) => ({ name: withoutSecrets(text), reason: set.message }));
    return { sources: [], refused, close: async () => undefined };
  }
  const payload = manifest?.root ? { root: manifest.root, bytes: manifest.bytes } : undefined;
  const shared = { relays: set, clock: systemClock, sha256: nativeSha256, payload };
  const isNear = (relay: string) =>
    named.find(({ text }) => withoutSecrets(text) === relay)?.isNear;
  return {
    sources: set.relays.map((relay) => ({
      ...createRelaySource({ ...shared, name: withoutSecrets(relay), relay }),
      isNear: isNear(relay),
    })),
    refused: [],
    close: () => set.close(),
  };
}

function openSource(
  { text, isNear, isTrusted }: NamedSource,
  { allowPrivate }: SourcesOptions,
): ChunkSource {
  if (!/^https?:\/\//i.test(text)) return createFolderSource(text);
  if (!URL.canParse(text)) {
    throw new ConfigError('checkpoint/place-name', `${safeLine(text)} is not an address`, {
      hint: 'name https://host/path, wss://relay, or a folder',
    });
  }
  return createHttpSource(text, {
    ask: createAskHttp({ isTrusted, allowPrivate }),
    clock: systemClock,
    isNear,
  });
}

/**
 * Returns why an address from a stranger is refused, judged by its text; undefined if it is acceptable. The IP address
 * behind a host name is checked when it is looked up.
 */
function strangerProblem(text: string): string | undefined {
  if (!/^(https?|wss?):\/\//i.test(text)) return 'a stranger named a folder';
  return hintProblem(text.replace(/^http/i, 'ws').replace(/\/+$/, ''))?.replace('relay', 'source');
}

export interface LocatedManifest {
  readonly manifest: FileManifest;
  /** Folder or address it came from, which may also have its chunks; undefined if it was found by digest. */
  readonly beside: string | undefined;
}

/**
 * Returns the manifest that a folder, file, address or digest names. Throws a ConfigError or a CheckpointError if it is
 * missing or wrong.
 */
export async function findManifest(
  what: string,
  sources: readonly ChunkSource[],
  signal: AbortSignal,
): Promise<LocatedManifest> {
  if (isHex32(what)) {
    const options = { signal, sha256: nativeSha256, clock: systemClock };
    return { manifest: await findManifestOf(what, sources, options), beside: undefined };
  }
  if (/^https?:\/\//i.test(what)) return ofAddress(what, signal);
  const stats = await stat(what).catch(() => undefined);
  if (stats?.isDirectory()) return { manifest: await readManifest(what), beside: what };
  if (stats) return { manifest: await readManifestFile(what), beside: undefined };
  throw new ConfigError(
    'checkpoint/what',
    `${safeLine(what)} is not a manifest, address or digest`,
    {
      hint: 'name a manifest.json, its address, or the digest that `checkpoint pack` printed',
    },
  );
}

/** Downloads the manifest at an address. A hash in the address (`…/<sha256>` or `#sha256=<hash>`) must match. */
async function ofAddress(what: string, signal: AbortSignal): Promise<LocatedManifest> {
  const url = new URL(what);
  const pin =
    /^#sha256=([0-9a-f]{64})$/.exec(url.hash)?.[1] ?? /\/([0-9a-f]{64})$/.exec(url.pathname)?.[1];
  url.hash = '';
  const answer = await createAskHttp({ isTrusted: true })(url.href, { signal });
  if (answer.status !== 200) {
    answer.cancel();
    throw new CheckpointError('checkpoint/no-manifest', `${url.href} answered ${answer.status}`, {
      hint: 'name the address of a manifest.json, or of a manifest by its SHA-256',
    });
  }
  const bytes = await readUpTo(answer.body, MOST_MANIFEST_BYTES);
  if (pin !== undefined && (!bytes || toHex(nativeSha256(bytes)) !== pin)) {
    throw new CheckpointError('checkpoint/other', `${url.href} is not the manifest ${pin}`, {
      hint: 'the file at the address may have changed: ask for the current address',
    });
  }
  return { manifest: parse(url.href, bytes), beside: new URL('.', url).href };
}

const parse = (where: string, bytes: Uint8Array | undefined): FileManifest =>
  orBadManifest(where, new TextDecoder().decode(bytes));
