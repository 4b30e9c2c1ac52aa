/** Publishes the run page as a Nostr static site (NIP-5A): files on Blossom servers, manifest on relays. */
import { extname } from 'node:path';
import { systemClock } from '../../../base/async.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { createBlossomSource } from '../../../network/chunks/http-source.ts';
import type { SignedEvent, Signer } from '../../../network/event.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { createAskHttp } from '../../../node/net/ask-http.ts';
import { contentTypeOf, type PageFiles } from '../../../node/net/http-server.ts';
import type { Connection } from '../../../node/net/relays.ts';
import { buildSite, type Site } from '../../../social/sites.ts';
import { publishEvent, withRelays } from '../../shared/with-relays.ts';

const SITE = /^[a-z0-9-]{0,12}[a-z0-9]$/;
/** Length of a key in base 36, fixed by NIP-5A. */
const KEY_LETTERS = 50;

export interface Publication extends Pick<Site, 'title' | 'servers' | 'source' | 'split'> {
  readonly site: string;
  readonly relays: readonly string[];
  readonly signer: Signer;
  readonly connection: Connection;
  readonly signal: AbortSignal;
}

export interface Published {
  /** The manifest event, and the id of its snapshot. */
  readonly event: SignedEvent;
  readonly snapshot: string;
  /** First label of the host name: `https://LABEL.example.org/`. */
  readonly label: string;
  readonly files: readonly { readonly path: string; readonly sha256: string }[];
  /** Relays that accepted the manifest. */
  readonly relays: readonly string[];
}

/** Throws `page/site` if hosts cannot serve this name. */
export function assertSite(site: string): void {
  if (SITE.test(site)) return;
  throw new ConfigError('page/site', `${site} is not a valid site name`, {
    hint: 'use at most 13 characters of a-z, 0-9 and -, not ending in -, such as --site nostrain',
  });
}

/** Uploads the files that the servers lack, then publishes the manifest and a snapshot of it. */
export async function publishSite(files: PageFiles, options: Publication): Promise<Published> {
  const { site, title, servers, relays: urls, signer, connection, signal } = options;
  const { source, split } = options;
  const blobs = [...files].map(([name, bytes]) => {
    return { path: `/${name}`, bytes, sha256: toHex(nativeSha256(bytes)) };
  });
  const ask = createAskHttp({ isTrusted: true });
  for (const server of servers) {
    for (const { path, bytes, sha256 } of blobs) {
      const contentType = contentTypeOf(extname(path));
      const blossom = createBlossomSource(server, { ask, clock: systemClock, signer, contentType });
      const blob = { sha256, bytes: bytes.length, offset: undefined };
      await blossom.store?.(blob, bytes, signal);
    }
  }
  const paths = blobs.map(({ path, sha256 }) => ({ path, sha256 }));
  const drafts = buildSite(
    {
      name: site,
      title,
      author: signer.publicKey,
      files: paths,
      servers,
      source,
      split,
      relay: urls[0] ?? '',
    },
    Math.floor(systemClock.now() / 1000),
  );
  const [event, snapshot] = drafts.map((draft) => signer.sign(draft));
  const accepting = await withRelays(urls, { connection, signer, signal }, async (session) => {
    const accepting = await publishEvent(event!, 'manifest', session);
    await publishEvent(snapshot!, 'snapshot', session);
    return accepting;
  });
  return {
    event: event!,
    snapshot: snapshot!.id,
    label: `${keyLabel(signer.publicKey)}${site}`,
    files: paths,
    relays: accepting,
  };
}

/** Returns the key in base 36, as hosts of named sites read it. */
export const keyLabel = (publicKey: string): string =>
  BigInt(`0x${publicKey}`).toString(36).padStart(KEY_LETTERS, '0');
