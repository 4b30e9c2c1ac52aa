/** `nostrain checkpoint seed`: serves the chunks of a folder to whoever fetches them, within bounds. */
import { Command } from 'commander';
import { systemClock } from '../../../base/async.ts';
import { formatBytes } from '../../../base/numbers.ts';
import { manifestDigest } from '../../../network/chunks/manifest.ts';
import { readManifest } from '../../../node/checkpoint/folder.ts';
import { serveFolder } from '../../../node/checkpoint/holder-server.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { connectionFlagNames } from '../../../terminal/connection.ts';
import { whole } from '../../../terminal/flags.ts';
import { untilInterrupted } from '../../../terminal/interrupt.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { type AnnounceFlags, addAnnounceFlags, announcing } from './announcing.ts';

interface Flags extends AnnounceFlags {
  readonly port: number;
  readonly host: string;
  readonly rate?: number;
  readonly copies?: number;
}

/** The command. */
export const seed = (): Command =>
  addAnnounceFlags(
    new Command('seed')
      .description('serve the chunks of a folder over HTTP until Ctrl-C')
      .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
      .addOption(whole('--port <n>', 'where to listen; 0 for any port', 0, 65_535).default(8790))
      .option('--host <address>', 'where to listen; 0.0.0.0 for every network', '127.0.0.1')
      .addOption(whole('--rate <bytes>', 'most bytes a second, to all together', 1024))
      .addOption(
        whole('--copies <n>', 'how often one chunk goes out in a minute: others pass it on', 1),
      ),
  ).action(async (folder: string, flags: Flags, command: Command) => {
    const { port, host, rate, copies } = flags;
    const holds = flags.announce !== undefined;
    const only = [
      'directory',
      'region',
      'trustTier',
      'weight',
      'keyFile',
      'secKey',
      'allowPrivate',
    ];
    refuseUnused(command, [
      { flags: [...only, ...connectionFlagNames], goesWith: '--announce', holds },
    ]);
    const known = await announcing(flags);
    const manifest = await readManifest(folder);
    const server = await serveFolder(folder, manifest, {
      port,
      host,
      rate,
      copies,
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
    writeNote(`${formatBytes(server.sentBytes)} went out`);
  });
