/** What the relays of a demo have of its certified run, kept in a file and replayed from there. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Archive, archiveRun, formatArchive } from '../../../../certified/records/archive.ts';
import { type ReplayReport, replayRun } from '../../../../certified/records/replay-run.ts';
import { nativeCrypto } from '../../../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../../../node/native/sha256.ts';
import { type RunSpec, runIdOf } from '../../../../run/spec/run-spec.ts';
import { connectionOf } from '../../../../terminal/connection.ts';
import { withRelays } from '../../../shared/with-relays.ts';

export interface ReplayKept {
  readonly archive: Archive;
  readonly eventsFile: string;
  readonly report: ReplayReport;
}

/** Everything the relays have of the run, in a file that stays, and what a replay of it finds. */
export async function replayKept(
  spec: RunSpec,
  relay: readonly string[],
  dir: string,
  signal: AbortSignal,
): Promise<ReplayKept> {
  const hashing = { sha256: nativeSha256, crypto: nativeCrypto };
  const connection = connectionOf({ timeout: 10 });
  const archive = await withRelays(relay, { connection, signal }, ({ relays }) =>
    archiveRun(runIdOf(spec), { relays, signal, ...hashing }),
  );
  const eventsFile = join(dir, 'events.jsonl');
  await writeFile(eventsFile, formatArchive(archive));
  return { archive, eventsFile, report: await replayRun(archive, { spec, ...hashing }) };
}
