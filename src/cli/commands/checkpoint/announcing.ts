/** `nostrain checkpoint seed --announce`: the server's directory, and its announcements to relays and other holders for as long as it serves. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { ConfigError } from '../../../base/errors.ts';
import { Directory } from '../../../network/directory/directory.ts';
import { buildHolder, type HolderOffer } from '../../../network/wire/holders.ts';
import { directoryRoute } from '../../../node/checkpoint/directory-route.ts';
import { announce } from '../../../node/checkpoint/find-holders.ts';
import { nativeCrypto } from '../../../node/native-crypto.ts';
import { isPlaceName, MOST_WEIGHT } from '../../../run/holder.ts';
import type { Digest } from '../../../run/ids.ts';
import { whole } from '../../../terminal/flags.ts';
import { writeNote } from '../../../terminal/output.ts';
import { addDirectoryFlags, type DirectoryFlags, unixSeconds, withDirectory } from '../../shared/directory.ts'; // biome-ignore format: one import
import { homeSigner } from '../../shared/member-flags.ts';

export interface AnnounceFlags extends DirectoryFlags {
  readonly announce?: string;
  readonly region: string;
  readonly tier: string;
  readonly weight: number;
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
  addDirectoryFlags(command)
    .option('--announce <url>', 'where others reach this server: makes it known as a holder')
    .option('--region <name>', 'with --announce: region of this server', 'unknown')
    .option('--tier <name>', 'with --announce: trust tier of this server', 'open')
    .addOption(
      whole(
        '--weight <n>',
        'with --announce: share of what is placed, beside the others',
        0,
        MOST_WEIGHT,
      ).default(1),
    )
    .option('--key-file <file>', 'secret key to sign with (default: in your data folder)')
    .option('--sec-key <key>', 'secret key as hex or nsec; other users of this machine see it');

/** Undefined without `--announce`. */
export async function announcing(flags: AnnounceFlags): Promise<Announcing | undefined> {
  const { announce: url, region, tier, weight } = flags;
  if (url === undefined) return undefined;
  if (!/^https?:\/\//.test(url) || !URL.canParse(url) || ![region, tier].every(isPlaceName)) {
    throw new ConfigError('flag/announce', 'that cannot be announced', {
      hint: 'say --announce https://host:port, and names of a-z, 0-9, dot, dash and underscore',
    });
  }
  const signer = await homeSigner(flags, writeNote);
  const allowPrivate = flags.allowPrivate === true;
  const directory = new Directory({
    ...{ own: signer.publicKey, now: unixSeconds, crypto: nativeCrypto, allowPrivate },
  });
  const offer = (held: readonly Digest[]): HolderOffer => ({
    ...{ region, tier, weight, held, contacts: [url.replace(/\/+$/, '')] },
    // what this server has is all it serves
    ...{ classes: [], freeBytes: 0 },
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
