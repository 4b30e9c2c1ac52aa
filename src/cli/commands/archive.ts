/** `nostrain archive`: writes all events of a certified run to a file from which the run can be replayed. */

import { mkdir, rename } from 'node:fs/promises';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { createSlowReporter, whileSlow } from '../../base/slow.ts';
import { specsOf } from '../../certified/history/gather.ts';
import { type Archive, archiveRun, formatArchive } from '../../certified/records/archive.ts';
import { LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES } from '../../network/chunks/manifest.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { kindOf } from '../../node/files/atomic-file.ts';
import type { Digest } from '../../run/ids.ts';
import { defineCommand } from '../../terminal/command.ts';
import { type FlagValues, several, text, whole, withDefault } from '../../terminal/flag-table.ts';
import { refuseUnused } from '../../terminal/options.ts';
import { exitCodes, writeNote, writeOut, writeOutput } from '../../terminal/output.ts';
import {
  eventsIn,
  type RecordOptions,
  readArchiveFile,
  sourceFlags,
  sourceOf,
  writeRecord,
} from '../shared/archive-source.ts';
import { pushFlags, pushFolders } from '../shared/chunks.ts';
import { withRelays } from '../shared/with-relays.ts';

/** Default chunk length of --folder: 1 MiB, which Blossom servers accept without special limits. */
const CHUNK_BYTES = 2 ** 20;

const archiveFlags = {
  ...sourceFlags,
  out: text('<file>', 'file to write: JSON lines, one signed event each, then the beacon values'),
  folder: text(
    '<dir>',
    'folder to write: run.jsonl, saved states, record.json, and all of it as ' +
      'content-addressed chunks',
  ),
  every: withDefault(
    whole('<n>', '--folder: also keep the state after every n rounds; 0 for the last', 0),
    0,
  ),
  chunk: withDefault(
    whole('<bytes>', '--folder: length of a chunk', LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES),
    CHUNK_BYTES,
  ),
  to: several(
    '<mirror>',
    '--folder: also store its chunks at this Blossom server (https://…), relay (wss://…) or ' +
      'folder, repeatable',
  ),
  ...pushFlags,
};

type ArchiveFlags = FlagValues<typeof archiveFlags>;

export const archive = defineCommand({
  name: 'archive',
  help:
    'write all events of a certified run to a file, or the whole run to a folder; run it ' +
    'again to add what is new',
  flags: archiveFlags,
  async run(flags, { signal, command }) {
    const { folder } = flags;
    const ofFolder = ['every', 'chunk', 'to', 'copies', 'days', 'keyFile', 'secKey'];
    const holds = folder !== undefined;
    refuseUnused(command, [{ flags: ofFolder, goesWith: '--folder', holds }]);
    const out = folder === undefined ? flags.out : eventsIn(folder);
    if (out === undefined || (folder !== undefined && flags.out !== undefined)) {
      throw new ConfigError('flag/out', 'archive needs a file or a folder to write', {
        hint: 'use --out FILE or --folder DIR',
      });
    }
    await run(out, flags, signal);
  },
});

async function run(out: string, flags: ArchiveFlags, signal: AbortSignal): Promise<void> {
  const { options, reach } = await sourceOf(flags, signal);
  const { run } = options;
  const { relays: urls } = reach;
  if (run === undefined || urls.length === 0) {
    throw new ConfigError('flag/run', 'archive needs a run and a relay that has it', {
      hint: 'use --run naddr1…, or --run ID (or --spec FILE) and --relay URL',
    });
  }
  const { folder } = flags;
  if (folder !== undefined) await makeFolder(folder);
  const known = await readKept(out);
  const report = createSlowReporter(writeNote);
  const onProgress = (have: number) => report(`${have} events`);
  const all = await withRelays(urls, reach, ({ relays }) =>
    archiveRun(run, { ...options, relays, known, onProgress, signal }),
  );
  if (all.events.length === 0) throw emptyArchive(run, urls);
  await replaceFile(out, formatArchive(all));
  const { events, beacons } = all;
  const added = events.length - known.events.length;
  const published = specsOf(events).get(run);
  const notes = [
    ...(published ? [] : ['; no relay has the spec']),
    ...((options.spec ?? published ?? NO_BEACON).beacon.kind === 'none'
      ? []
      : [`; ${beacons.length} beacon values`]),
  ];
  writeOut(`${out}: ${events.length} events, ${added} new${notes.join('')}\n`);
  // without the spec, the events cannot be replayed
  if (published === undefined && options.spec === undefined) {
    writeNote(
      `no relay has the spec of run ${run}: try other relays, or keep the spec file next to ` +
        'the events',
    );
    process.exitCode = exitCodes.failed.code;
  } else if (folder !== undefined) {
    const packed = await keepRecord(folder, all, {
      ...options,
      every: flags.every,
      chunkBytes: flags.chunk,
    });
    if (flags.to !== undefined) await pushFolders(packed, flags, signal);
  }
}

/** Writes the files next to the events and prints a summary. Returns the folders with chunks. */
async function keepRecord(
  folder: string,
  all: Archive,
  options: RecordOptions,
): Promise<readonly string[]> {
  const { record, report, manifests } = await whileSlow(
    `recording the run in ${folder}`,
    writeNote,
    () => writeRecord(folder, all, options),
  );
  const { rounds, states, runRoot, modelRoot } = record;
  const kept = [...new Set(states.map((state) => state.rounds))].join(', ') || 'none';
  writeOut(
    `${rounds} rounds, run root ${runRoot}, model ${modelRoot}; states after rounds ${kept}\n`,
  );
  for (const { folder: from, digest } of manifests) writeOut(`${from}: manifest ${digest}\n`);
  if (!report.ok) {
    writeNote(
      'a replay of it is incomplete: run `nostrain replay --events` to see what is missing',
    );
    process.exitCode = exitCodes.failed.code;
  }
  return manifests.map((each) => each.folder);
}

const makeFolder = (folder: string): Promise<unknown> =>
  mkdir(folder, { recursive: true }).catch((cause: unknown) => {
    throw new ConfigError('output/folder', `cannot create ${folder}`, {
      hint: 'name a writable folder with --folder DIR',
      cause,
    });
  });

const emptyArchive = (run: Digest, relays: readonly string[]): RelayError =>
  new RelayError('archive/empty', `no relay has any event of run ${run}`, {
    hint: 'name the relays that its workers use, with --relay URL',
    data: { relays: relays.map(withoutSecrets) },
  });

const NO_BEACON = { beacon: { kind: 'none' } } as const;

/**
 * Reads the events of an earlier archive. Throws `archive/file` if a line is not an event, so the file is not
 * overwritten.
 */
async function readKept(file: string): Promise<Archive> {
  if ((await kindOf(file)) === undefined) return { events: [], beacons: [] };
  const { bad, ...kept } = await readArchiveFile(file);
  if (bad.length === 0) return kept;
  const { line, reason } = bad[0]!;
  throw new ConfigError(
    'archive/file',
    `${file} has a line that is not an event: line ${line}: ${reason}`,
    { hint: 'move it away, or name another file with --out' },
  );
}

async function replaceFile(file: string, text: string): Promise<void> {
  await writeOutput(`${file}.part`, text);
  await rename(`${file}.part`, file);
}
