/** Places that a person, a spec or a directory names, opened for a fetch: relays, HTTP addresses, folders. */
import { systemClock } from '../../base/async.ts';
import { ConfigError, safeLine } from '../../base/errors.ts';
import { createRelaySource } from '../../network/attachments/relay-source.ts';
import { createHttpSource } from '../../network/chunks/http-source.ts';
import type { FileManifest } from '../../network/chunks/manifest.ts';
import type { ChunkSource } from '../../network/chunks/source.ts';
import { createSigner } from '../../network/event.ts';
import { hintProblem, isRelayUrl, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { createSecretKey } from '../files/keys.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { type Connection, connectRelays } from '../net/relays.ts';
import { createAskHttp } from './ask-http.ts';
import { createFolderSource } from './folder-place.ts';

export interface PlacesOptions {
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Private and loopback addresses may be asked whoever named them. */
  readonly allowPrivate?: boolean | undefined;
}

/** Where somebody says that chunks are. */
export interface NamedPlace {
  /** An address (`https://…`, `wss://…`) or a folder. */
  readonly text: string;
  readonly isNear?: boolean | undefined;
  /** A person at this machine named it; else a stranger did, who names public addresses only. */
  readonly isTrusted: boolean;
}

export interface OpenPlaces {
  readonly places: readonly ChunkSource[];
  /** Of strangers' places that are not asked: which, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  close(): Promise<void>;
}

/** Relays are asked for the chunk events of a whole file where its manifest is known, and for manifests. */
export async function openPlaces(
  named: readonly NamedPlace[],
  manifest: FileManifest | undefined,
  options: PlacesOptions,
): Promise<OpenPlaces> {
  const places: ChunkSource[] = [];
  const refused: { name: string; reason: string }[] = [];
  const relays: NamedPlace[] = [];
  for (const each of named) {
    const problem = each.isTrusted || options.allowPrivate ? undefined : strangerProblem(each.text);
    if (problem !== undefined) refused.push({ name: withoutSecrets(each.text), reason: problem });
    else if (isRelayUrl(each.text)) relays.push(each);
    else places.push(openPlace(each, options));
  }
  const isPlaced = manifest === undefined || manifest.root !== null;
  const opened: OpenPlaces[] = [];
  for (const isTrusted of [true, false]) {
    const some = relays.filter((each) => each.isTrusted === isTrusted);
    if (isPlaced && some.length > 0) opened.push(await openRelays(some, manifest, options));
  }
  return {
    places: [...places, ...opened.flatMap((each) => each.places)],
    refused: [...refused, ...opened.flatMap((each) => each.refused)],
    close: async () => void (await Promise.all(opened.map((each) => each.close()))),
  };
}

/** Relays that are trusted alike: one place each, that knows the others. */
async function openRelays(
  named: readonly NamedPlace[],
  manifest: FileManifest | undefined,
  { connection, signal, allowPrivate = false }: PlacesOptions,
): Promise<OpenPlaces> {
  const publicOnly = !named[0]!.isTrusted && !allowPrivate;
  const urls = named.map(({ text }) => text);
  const signer = createSigner(createSecretKey(), nativeCrypto);
  const set = await connectRelays(urls, { ...connection, publicOnly }, signer, signal).catch(
    (error: Error) => error,
  );
  if (set instanceof Error) {
    signal.throwIfAborted();
    const refused = named.map(({ text }) => ({ name: withoutSecrets(text), reason: set.message }));
    return { places: [], refused, close: async () => undefined };
  }
  const payload = manifest?.root ? { root: manifest.root, bytes: manifest.bytes } : undefined;
  const shared = { relays: set, clock: systemClock, sha256: nativeSha256, payload };
  const isNear = (relay: string) =>
    named.find(({ text }) => withoutSecrets(text) === relay)?.isNear;
  return {
    places: set.relays.map((relay) => ({
      ...createRelaySource({ ...shared, name: withoutSecrets(relay), relay }),
      isNear: isNear(relay),
    })),
    refused: [],
    close: () => set.close(),
  };
}

function openPlace(
  { text, isNear, isTrusted }: NamedPlace,
  { allowPrivate }: PlacesOptions,
): ChunkSource {
  if (!/^https?:\/\//i.test(text)) return createFolderSource(text);
  if (!URL.canParse(text)) {
    throw new ConfigError('checkpoint/place-name', `${safeLine(text)} is no address`, {
      hint: 'say https://host/path, wss://relay, or a folder',
    });
  }
  return createHttpSource(text, {
    ask: createAskHttp({ isTrusted, allowPrivate }),
    clock: systemClock,
    isNear,
  });
}

/** Why what a stranger names is not asked, by its form; where its name leads is judged when it is looked up. */
function strangerProblem(text: string): string | undefined {
  if (!/^(https?|wss?):\/\//i.test(text)) return 'a folder that a stranger names';
  return hintProblem(text.replace(/^http/i, 'ws').replace(/\/+$/, ''))?.replace('relay', 'place');
}
