/** `nostrain checkpoint seed`: serves the chunks of a folder within limits, and announces them with `--announce`. */

import { systemClock } from '../../../base/async.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { manifestDigest } from '../../../network/chunks/manifest.ts';
import { Directory } from '../../../network/directory/directory.ts';
import { buildHolder, type HolderOffer } from '../../../network/wire/holders.ts';
import { announce, directoryRoute, unixSeconds } from '../../../node/checkpoint/directory.ts';
import { readManifest } from '../../../node/checkpoint/folder.ts';
import { serveFolder } from '../../../node/checkpoint/holder-server.ts';
import { homeSigner } from '../../../node/files/keys.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import type { Digest } from '../../../run/ids.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionFlagNames } from '../../../terminal/connection.ts';
import { type FlagValues, text, whole, withDefault } from '../../../terminal/flag-table.ts';
import { untilInterrupted } from '../../../terminal/interrupt.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import {
  assertOffer,
  directoryFlags,
  offerFlags,
  withDirectory,
} from '../../shared/holder-flags.ts';
import { keyFlags } from '../../shared/signed-document.ts';

const seedFlags = {
  port: withDefault(whole('<n>', 'port to listen on; 0 for any free port', 0, 65_535), 8790),
  host: withDefault(
    text('<address>', 'address to listen on; 0.0.0.0 for all interfaces'),
    '127.0.0.1',
  ),
  rate: whole('<bytes>', 'maximum bytes per second, all clients together', 1024),
  copies: whole('<n>', 'maximum times one chunk is sent per minute; peers pass it on', 1),
  ...directoryFlags,
  ...offerFlags('--announce'),
  ...keyFlags,
};

type SeedFlags = FlagValues<typeof seedFlags>;

export const seed = defineCommand({
  name: 'seed',
  help: 'serve the chunks of a folder over HTTP until Ctrl-C',
  args: [['<folder>', 'what `checkpoint pack` or `fetch` wrote']],
  flags: seedFlags,
  async run(flags, { args: [folder], command }) {
    const { port, host, rate, copies } = flags;
    const holds = flags.announce !== undefined;
    const ofKey = ['keyFile', 'secKey', 'allowPrivate'];
    const only = ['directory', 'region', 'trustTier', 'weight', ...ofKey, ...connectionFlagNames];
    refuseUnused(command, [{ flags: only, goesWith: '--announce', holds }]);
    const known = await announcing(flags);
    const manifest = await readManifest(folder);
    const server = await serveFolder(folder, manifest, {
      port,
      host,
      rate,
      servesPerWindow: copies,
      clock: systemClock,
      ...(known && { beside: known.route }),
    });
    const digest = manifestDigest(manifest, nativeSha256);
    const interrupted = untilInterrupted();
    writeOut(`${server.url}/${digest}\n`);
    const stop = new AbortController();
    const kept = known?.keep([digest], stop.signal);
    await interrupted;
    stop.abort();
    await kept;
    await server.close();
    writeNote(`${formatBytes(server.sentBytes)} sent`);
  },
});

const HOLDS_SECONDS = 2 * 3600;
const REANNOUNCE_MS = 30 * 60_000;

/**
 * Returns the directory route of this server and its announcer, which runs until a signal aborts; undefined without
 * `--announce`.
 */
async function announcing(flags: SeedFlags) {
  const { announce: url, region, trustTier: tier, weight } = flags;
  if (url === undefined) return undefined;
  assertOffer(flags);
  const signer = await homeSigner(flags, writeNote);
  const allowPrivate = flags.allowPrivate === true;
  const directory = new Directory({
    localKey: signer.publicKey,
    now: unixSeconds,
    crypto: nativeCrypto,
    allowPrivate,
  });
  const offer = (digests: readonly Digest[]): HolderOffer => ({
    region,
    tier,
    weight,
    held: digests,
    contacts: [url.replace(/\/+$/, '')],
    // it stores nothing for others
    classes: [],
    freeBytes: 0,
  });
  const once = async (digests: readonly Digest[], signal: AbortSignal): Promise<void> => {
    const event = signer.sign(buildHolder(offer(digests), unixSeconds(), HOLDS_SECONDS));
    const reached = await withDirectory(flags, { signer, signal }, (search) =>
      announce(event, digests, directory, search),
    );
    writeNote(`announced to ${reached.relays} relays and ${reached.holders} holders`);
  };
  return {
    route: directoryRoute(directory),
    keep: async (digests: readonly Digest[], signal: AbortSignal): Promise<void> => {
      while (!signal.aborted) {
        await once(digests, signal).catch((error: Error) => {
          if (!signal.aborted) writeNote(`not announced: ${error.message}`);
        });
        await systemClock.sleep(REANNOUNCE_MS, signal).catch(() => undefined);
      }
    },
  };
}
