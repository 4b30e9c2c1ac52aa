/** `nostrain archive`: writes all events of a certified run to a file, so that it can be replayed when relays have forgotten it. */

import { rename, stat, writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { ConfigError, RelayError } from '../../base/errors.ts';
import { type Archive, archiveRun, formatArchive } from '../../certified/archive.ts';
import { specsOf } from '../../certified/gather.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import type { Digest } from '../../run/ids.ts';
import { exitCodes } from '../../terminal/exit-codes.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import {
  addSourceFlags,
  readArchiveFile,
  type SourceFlags,
  slowly,
  sourceOf,
} from '../shared/archive-source.ts';
import { withRelays } from '../shared/with-relays.ts';

interface Flags extends SourceFlags {
  readonly out: string;
}

export const archive = (): Command =>
  addSourceFlags(
    new Command('archive').description(
      'write every event of a certified run to a file; called again it adds what is new',
    ),
  )
    .requiredOption('--out <file>', 'JSON lines, one signed event each, then values of the beacon')
    .action(async (flags: Flags) => {
      await interruptibly(async (signal) => {
        const { options, reach } = await sourceOf(flags, signal);
        const { run } = options;
        const { relays: urls } = reach;
        if (run === undefined || urls.length === 0) {
          throw new ConfigError('flag/run', 'archive needs a run and a relay that has it', {
            hint: 'say --run naddr1…, or --run ID (or --spec FILE) and --relay URL',
          });
        }
        const known = await readKept(flags.out);
        const report = slowly();
        const onProgress = (have: number) => report(`${have} events`);
        const all = await withRelays(urls, reach, ({ relays }) =>
          archiveRun(run, { ...options, relays, known, onProgress, signal }),
        );
        if (all.events.length === 0) throw nothingFound(run, urls);
        await replaceFile(flags.out, formatArchive(all));
        const { events, beacons } = all;
        const added = events.length - known.events.length;
        const published = specsOf(events).get(run);
        const notes = [
          ...(published ? [] : ['; no relay has the spec']),
          ...((options.spec ?? published ?? NO_BEACON).beacon.kind === 'none'
            ? []
            : [`; ${beacons.length} beacon values`]),
        ];
        writeOut(`${flags.out}: ${events.length} events, ${added} new${notes.join('')}\n`);
        // nobody can replay what nobody has the rules of
        if (published === undefined && options.spec === undefined) {
          writeNote(`no relay has the spec of run ${run}: ask others, or keep its file beside`);
          process.exitCode = exitCodes.failed.code;
        }
      });
    });

const nothingFound = (run: Digest, relays: readonly string[]): RelayError =>
  new RelayError('archive/empty', `no relay has anything of run ${run}`, {
    hint: 'ask the relays that its workers use, with --relay URL',
    data: { relays: relays.map(withoutSecrets) },
  });

const NO_BEACON = { beacon: { kind: 'none' } } as const;

/** Events of an earlier call. A file with anything else in it is not written over. */
async function readKept(file: string): Promise<Archive> {
  const exists = await stat(file).then(
    () => true,
    () => false,
  );
  if (!exists) return { events: [], beacons: [] };
  const { bad, ...kept } = await readArchiveFile(file);
  if (bad.length === 0) return kept;
  const { line, reason } = bad[0]!;
  throw new ConfigError(
    'archive/file',
    `${file} has lines that are no events: line ${line}: ${reason}`,
    { hint: 'move it away, or name another file with --out' },
  );
}

/** Whole or not at all. */
async function replaceFile(file: string, text: string): Promise<void> {
  const beside = `${file}.part`;
  await writeFile(beside, text)
    .then(() => rename(beside, file))
    .catch((cause: unknown) => {
      throw new ConfigError('output/file', `cannot write ${file}`, {
        hint: 'name a file you may write with --out FILE',
        cause,
      });
    });
}
