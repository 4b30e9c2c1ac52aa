/** `nostrain archive`: writes all events of a certified run to a file, so that it can be replayed when relays have forgotten it. */
import { rename, stat, writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { run as runKind } from '../../../kinds/run.ts';
import { snapshot } from '../../../kinds/snapshot.ts';
import { ConfigError } from '../../base/errors.ts';
import { type EventFile, readEventFile } from '../../certified/event-file.ts';
import { specsOf } from '../../certified/gather.ts';
import { formatBeacon } from '../../certified/history-beacons.ts';
import {
  addSourceFlags,
  fetchFrom,
  findBeacons,
  runOf,
  type SourceFlags,
  withStakes,
} from '../../certified/history-source.ts';
import type { SignedEvent } from '../../network/event.ts';
import { readSpec } from '../../run/read-spec.ts';
import { onInterrupt } from '../../terminal/interrupt.ts';
import { readDocument } from '../run/spec-file.ts';

interface Flags extends SourceFlags {
  readonly out: string;
}

/** Relays may have taken an event a while after it was dated. */
const OVERLAP_SECONDS = 2 * 86_400;

export const archive = (): Command =>
  addSourceFlags(
    new Command('archive').description(
      'write every event of a certified run to a file; called again it adds what is new',
    ),
  )
    .requiredOption('--out <file>', 'JSON lines, one signed event each, then values of the beacon')
    .action(async (flags: Flags) => {
      const interrupt = onInterrupt();
      try {
        const own = flags.spec === undefined ? undefined : readSpec(await readDocument(flags.spec));
        const run = runOf(flags, own);
        if (run === undefined || flags.relay.length === 0) {
          throw new ConfigError('flag/run', 'archive needs a run and a relay that has it', {
            hint: 'say --run ID (or --spec FILE) and --relay URL',
          });
        }
        const { events: before, beacons } = await readKept(flags.out);
        const latest = Math.max(...before.map(({ created_at }) => created_at));
        const since = before.length === 0 ? undefined : Math.max(0, latest - OVERLAP_SECONDS);
        const fresh = await fetchFrom(flags, run, interrupt.signal, since);
        const all = inOrder(await withStakes([...before, ...fresh], flags));
        const spec = own ?? specsOf(all).get(run);
        const found =
          spec && (await findBeacons({ run, spec }, all, beacons, flags, interrupt.signal));
        const lines = [
          ...all.map((event) => JSON.stringify(event)),
          ...(found?.records ?? []).map(formatBeacon),
        ];
        await replaceFile(flags.out, lines.map((line) => `${line}\n`).join(''));
        const added = all.length - before.length;
        const hasSpec = all.some(({ kind }) => kind === runKind.kind);
        const notes = [
          ...(hasSpec ? [] : ['; no relay has the spec']),
          ...(found && spec?.beacon.kind !== 'none'
            ? [`; ${found.records.length} beacon values`]
            : []),
        ];
        process.stdout.write(`${flags.out}: ${all.length} events, ${added} new${notes.join('')}\n`);
      } finally {
        interrupt.dispose();
      }
    });

/** Events of an earlier call. A file with anything else in it is not written over. */
async function readKept(file: string): Promise<Pick<EventFile, 'events' | 'beacons'>> {
  const exists = await stat(file).then(
    () => true,
    () => false,
  );
  if (!exists) return { events: [], beacons: [] };
  const { events, beacons, bad } = await readEventFile(file);
  if (bad.length === 0) return { events, beacons };
  const { line, reason } = bad[0]!;
  throw new ConfigError(
    'archive/file',
    `${file} has lines that are no events: line ${line}: ${reason}`,
    {
      hint: 'move it away, or name another file with --out',
    },
  );
}

/** Each once: spec and snapshots first, then by time and id, so that the same events make the same file. */
export function inOrder(events: readonly SignedEvent[]): readonly SignedEvent[] {
  const once = [...new Map(events.map((event) => [event.id, event])).values()];
  return once.sort(
    (a, b) => rank(a) - rank(b) || a.created_at - b.created_at || (a.id < b.id ? -1 : 1),
  );
}

const rank = ({ kind }: SignedEvent): number => {
  const first: readonly number[] = [runKind.kind, snapshot.kind];
  return first.includes(kind) ? first.indexOf(kind) : first.length;
};

/** Whole or not at all. */
async function replaceFile(file: string, text: string): Promise<void> {
  const beside = `${file}.part`;
  await writeFile(beside, text)
    .then(() => rename(beside, file))
    .catch((cause: unknown) => {
      throw new ConfigError('output/file', `cannot write ${file}`, { cause });
    });
}
