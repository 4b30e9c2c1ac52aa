/** `nostrain checkpoint seed --announce`: the server's directory, and its announcements to relays and other holders for as long as it serves. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Command } from 'commander';
import { systemClock } from '../../../base/async.ts';
import { Directory } from '../../../network/directory/directory.ts';
import { buildHolder, type HolderOffer } from '../../../network/wire/holders.ts';
import { directoryRoute } from '../../../node/checkpoint/directory-route.ts';
import { announce } from '../../../node/checkpoint/find-holders.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { Digest } from '../../../run/ids.ts';
import { writeNote } from '../../../terminal/output.ts';
import {
  addDirectoryFlags,
  type DirectoryFlags,
  unixSeconds,
  withDirectory,
} from '../../shared/directory.ts';
import { addOfferFlags, assertOffer, type OfferFlags } from '../../shared/hold-flags.ts';

export interface AnnounceFlags extends DirectoryFlags, OfferFlags {
  readonly keyFile?: string;
  readonly secKey?: string;
}

export interface Announcing {
  /** Of the holder server. */
  route(request: IncomingMessage, response: ServerResponse): boolean;
  /** Announces the object now and again until the signal aborts. */
  keep(held: readonly Digest[], signal: AbortSignal): Promise<void>;
}

const HOLDS_SECONDS = 2 * 3600;
const AGAIN_MS = 30 * 60_000;

/** Flags with which a server makes itself known. */
export const addAnnounceFlags = (command: Command): Command =>
  addOfferFlags(addDirectoryFlags(command), '--announce')
    .option('--key-file <file>', 'secret key to sign with (default: in your data folder)')
    .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it');

/** Undefined without `--announce`. */
export async function announcing(flags: AnnounceFlags): Promise<Announcing | undefined> {
  const { announce: url, region, trustTier: tier, weight } = flags;
  if (url === undefined) return undefined;
  assertOffer(flags);
  const signer = await homeSigner(flags, writeNote);
  const allowPrivate = flags.allowPrivate === true;
  const directory = new Directory({
    own: signer.publicKey,
    now: unixSeconds,
    crypto: nativeCrypto,
    allowPrivate,
  });
  const offer = (held: readonly Digest[]): HolderOffer => ({
    region,
    tier,
    weight,
    held,
    contacts: [url.replace(/\/+$/, '')],
    // what this server has is all it serves
    classes: [],
    freeBytes: 0,
  });
  const once = async (held: readonly Digest[], signal: AbortSignal): Promise<void> => {
    const event = signer.sign(buildHolder(offer(held), unixSeconds(), HOLDS_SECONDS));
    const told = await withDirectory(flags, { signer, signal }, (search) =>
      announce(event, held, directory, search),
    );
    writeNote(`announced to ${told.relays} relays and ${told.holders} holders`);
  };
  return {
    route: directoryRoute(directory),
    keep: async (held, signal) => {
      while (!signal.aborted) {
        await once(held, signal).catch((error: Error) => {
          if (!signal.aborted) writeNote(`not announced: ${error.message}`);
        });
        await systemClock.sleep(AGAIN_MS, signal).catch(() => undefined);
      }
    },
  };
}
