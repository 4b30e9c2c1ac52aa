/** Places that a person, a spec or a directory names, opened for a fetch: relays, HTTP addresses, folders. */
import { systemClock } from '../../base/clock.ts';
import { ConfigError } from '../../base/errors.ts';
import { safeLine } from '../../base/safe-text.ts';
import { createHttpPlace } from '../../checkpoint/http-place.ts';
import type { Manifest } from '../../checkpoint/manifest.ts';
import type { ChunkPlace } from '../../checkpoint/place.ts';
import { createRelayPlace } from '../../checkpoint/relay-place.ts';
import { createSigner } from '../../network/event.ts';
import { hintProblem } from '../../network/transport/public-hosts.ts';
import type { RelaySet } from '../../network/transport/relay-set.ts';
import { isRelayUrl, withoutSecrets } from '../../network/transport/relay-urls.ts';
import { type Connection, connectRelays } from '../connect-relays.ts';
import { createSecretKey } from '../keys.ts';
import { nativeCrypto } from '../native-crypto.ts';
import { nativeSha256 } from '../native-sha256.ts';
import { createAskHttp } from './ask-http.ts';
import { createFolderPlace } from './folder-place.ts';

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
  readonly places: readonly ChunkPlace[];
  /** Of strangers' places that are not asked: which, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  close(): Promise<void>;
}

/** Relays are asked for the chunk events of a whole file, so they are of use only where its manifest is known. */
export async function openPlaces(
  named: readonly NamedPlace[],
  manifest: Manifest | undefined,
  options: PlacesOptions,
): Promise<OpenPlaces> {
  const places: ChunkPlace[] = [];
  const refused: { name: string; reason: string }[] = [];
  const sets: RelaySet[] = [];
  for (const each of named) {
    const problem = each.isTrusted || options.allowPrivate ? undefined : strangerProblem(each.text);
    if (problem !== undefined) refused.push({ name: withoutSecrets(each.text), reason: problem });
    else if (!isRelayUrl(each.text)) places.push(openPlace(each, options));
    else if (manifest?.root) {
      const set = await openRelay(each, options).catch((error: Error) => error);
      if (set instanceof Error)
        refused.push({ name: withoutSecrets(each.text), reason: set.message }); // biome-ignore format: one line
      else {
        sets.push(set);
        places.push(relayPlace(each, set, { root: manifest.root, bytes: manifest.bytes }));
      }
    }
  }
  return {
    ...{ places, refused },
    close: async () => void (await Promise.all(sets.map((set) => set.close()))),
  };
}

function openPlace(
  { text, isNear, isTrusted }: NamedPlace,
  { allowPrivate }: PlacesOptions,
): ChunkPlace {
  // biome-ignore format: one line
  if (!/^https?:\/\//i.test(text)) return createFolderPlace(text);
  if (!URL.canParse(text)) {
    throw new ConfigError('checkpoint/place-name', `${safeLine(text)} is no address`, {
      hint: 'say https://host/path, wss://relay, or a folder',
    });
  }
  return createHttpPlace(text, {
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

const openRelay = (
  { text, isTrusted }: NamedPlace,
  { connection, signal, allowPrivate = false }: PlacesOptions,
): Promise<RelaySet> =>
  connectRelays(
    [text],
    { ...connection, publicOnly: !isTrusted && !allowPrivate },
    createSigner(createSecretKey(), nativeCrypto),
    signal,
  );

const relayPlace = (
  { text, isNear }: NamedPlace,
  relays: RelaySet,
  payload: { readonly root: string; readonly bytes: number },
): ChunkPlace => ({
  ...createRelayPlace({
    ...{ name: withoutSecrets(text), relays, clock: systemClock, sha256: nativeSha256, payload },
  }),
  isNear,
});
