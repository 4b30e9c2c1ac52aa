/**
 * `nostrain checkpoint fetch`: downloads a chunked file from several sources into a folder, and can serve it from
 * there.
 */

import { systemClock } from '../../../base/async.ts';
import { isHex32 } from '../../../base/bytes.ts';
import { CheckpointError, ConfigError } from '../../../base/errors.ts';
import { formatBytes, formatCount, formatSeconds } from '../../../base/numbers.ts';
import { type FileManifest, manifestDigest, type Piece } from '../../../network/chunks/manifest.ts';
import type { SourceReport } from '../../../network/chunks/source.ts';
import { findHolders } from '../../../node/checkpoint/directory.ts';
import { type FetchedFolder, fetchFolder } from '../../../node/checkpoint/fetch-folder.ts';
import { fetchTier } from '../../../node/checkpoint/fetch-tier.ts';
import { serveFolder } from '../../../node/checkpoint/holder-server.ts';
import { type NamedSource, openFile } from '../../../node/checkpoint/sources.ts';
import { unpackFolder } from '../../../node/checkpoint/unpack.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { MOST_TIERS } from '../../../run/spec/model-spec.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { type FlagValues, required, several, text, whole } from '../../../terminal/flag-table.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { writeNote, writeOut } from '../../../terminal/output.ts';
import { reportFetch } from '../../shared/chunks.ts';
import { directoryFlags, withDirectory } from '../../shared/holder-flags.ts';

/** Default download limit, as a multiple of the file size. */
const USUAL_EXCESS = 2;
const LEAST_CAP = 2 ** 26;
/** The directory search stops after this many holders. */
const ENOUGH_HOLDERS = 6;

const fetchFlags = {
  from: several('<source>', 'source: https://…, wss://… or a folder, repeatable'),
  near: several('<source>', 'source to try first, repeatable'),
  out: { ...required(text('<folder>', 'folder for the chunks')), short: 'o' },
  file: text('<file>', 'also write the file'),
  tier: whole('<n>', 'with --file: write only this tier of a state with tiers', 0, MOST_TIERS),
  maxBytes: whole('<n>', 'maximum bytes to download (default: twice the file size)', 1),
  maxSeconds: whole('<s>', 'time limit in seconds; downloaded chunks are kept', 1),
  perPlace: whole('<n>', 'chunks requested from one source at once', 1, 64),
  seed: whole(
    '<port>',
    'serve the downloaded chunks on this port until the download is complete',
    0,
    65_535,
  ),
  ...directoryFlags,
};

type CheckpointFetchFlags = FlagValues<typeof fetchFlags>;

export const fetch = defineCommand({
  name: 'fetch',
  help: 'download a chunked file from several sources at once; run it again to resume',
  args: [['<what>', 'manifest.json, a folder, their address, or a digest']],
  flags: fetchFlags,
  async run(flags, { args: [what], signal, command }) {
    refuseUnused(command, [
      { flags: ['tier'], goesWith: '--file', holds: flags.file !== undefined },
    ]);
    await limited(flags.maxSeconds, signal, (stop) => run(what, flags, stop));
  },
});

/** Aborts the work after this many seconds. */
async function limited(
  seconds: number | undefined,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  if (seconds === undefined) return work(signal);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(tooLate(seconds)), 1000 * seconds);
  try {
    await work(AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}

const tooLate = (seconds: number): CheckpointError =>
  new CheckpointError('checkpoint/too-late', `the download is incomplete after ${seconds} s`, {
    hint: 'run the same command again to resume; more --from sources make it faster',
  });

async function run(what: string, flags: CheckpointFetchFlags, signal: AbortSignal): Promise<void> {
  const named = [...namedSources(flags), ...(await holdersOf(what, flags, signal))];
  const { manifest, sources, close } = await openFile(what, named, {
    connection: connectionOf(flags),
    allowPrivate: flags.allowPrivate,
    signal,
    onNotice: writeNote,
  });
  if (sources.length === 0) throw nowhere();
  const server =
    flags.seed === undefined ? undefined : await seedAt(flags.seed, manifest, flags.out);
  try {
    const mostBytes = flags.maxBytes ?? Math.max(LEAST_CAP, USUAL_EXCESS * manifest.bytes);
    const startedMs = systemClock.now();
    const fetching = {
      sources,
      signal,
      mostBytes,
      perSource: flags.perPlace,
      isShuffled: server !== undefined,
      onChunk: ({ sha256 }: Piece) => server?.add(sha256),
      report: reportFetch(),
    };
    const { file, tier } = flags;
    const isTier = file !== undefined && tier !== undefined;
    const fetched = isTier
      ? await fetchTier(manifest, flags.out, { tier, file }, fetching)
      : await fetchFolder(manifest, flags.out, fetching);
    if (file !== undefined && !isTier) await unpackFolder(flags.out, manifest, file, { signal });
    writeOut(words(manifest, fetched, flags, systemClock.now() - startedMs));
  } finally {
    await server?.close();
    await close();
  }
}

const namedSources = ({ from = [], near = [] }: CheckpointFetchFlags): readonly NamedSource[] => [
  ...near.map((text) => ({ text, isNear: true, isTrusted: true })),
  ...from.map((text) => ({ text, isTrusted: true })),
];

/** Returns the holders that `--directory` finds. They are untrusted, so private addresses are not dialed. */
async function holdersOf(
  what: string,
  flags: CheckpointFetchFlags,
  signal: AbortSignal,
): Promise<readonly NamedSource[]> {
  if (flags.directory.length === 0) return [];
  if (!isHex32(what)) {
    throw new ConfigError('flag/directory', '--directory finds the holders of a digest', {
      hint: 'give the 64 hex digits that `nostrain checkpoint pack` printed',
    });
  }
  const { holders } = await withDirectory(flags, { signal }, (search) =>
    findHolders(what, ENOUGH_HOLDERS, search),
  );
  writeNote(`${holders.length} holders are known`);
  return holders.flatMap(({ contacts: [text] }) => (text ? [{ text, isTrusted: false }] : []));
}

const nowhere = (): ConfigError =>
  new ConfigError('flag/from', 'there is no source to fetch from', {
    hint: 'name sources with --from: https://…, wss://… or a folder',
  });

async function seedAt(port: number, manifest: FileManifest, folder: string) {
  const server = await serveFolder(folder, manifest, { port, host: '0.0.0.0', clock: systemClock });
  writeNote(`serving downloaded chunks at ${server.url}`);
  return server;
}

function words(
  manifest: FileManifest,
  { kept, bytes, restored, sources }: FetchedFolder,
  { out, file }: CheckpointFetchFlags,
  ms: number,
): string {
  return [
    `digest   ${manifestDigest(manifest, nativeSha256)}`,
    `bytes    ${formatCount(manifest.bytes)} in ${file ?? out}, ${formatSeconds(ms / 1000)}; ` +
      `${formatBytes(bytes)} downloaded, ${formatBytes(kept)} already here`,
    ...(restored > 0 ? [`parity   restored ${restored} chunks`] : []),
    ...(manifest.root === null ? [] : [`root     ${manifest.root}`]),
    ...sources.map(sourceLine),
    '',
  ].join('\n');
}

function sourceLine({ name, bytes, chunks, failures, state, message }: SourceReport): string {
  const trouble = message === '' ? '' : ` (${message})`;
  const failed = failures > 0 ? `, ${failures} failures` : '';
  const what = `${formatCount(chunks)} chunks, ${formatBytes(bytes)}`;
  return `from     ${name}: ${what}, ${state}${failed}${trouble}`;
}
