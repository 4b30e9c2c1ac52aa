/** What the relays of a demo have of its certified run, kept in a file and replayed from there. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Archive, archiveRun, formatArchive } from '../../src/certified/records/archive.ts';
import { type ReplayReport, replayRun } from '../../src/certified/records/replay-run.ts';
import { withRelays } from '../../src/cli/shared/with-relays.ts';
import { nativeCrypto } from '../../src/node/native/event-crypto.ts';
import { nativeSha256 } from '../../src/node/native/sha256.ts';
import { type RunSpec, runIdOf } from '../../src/run/spec/run-spec.ts';
import { connectionOf } from '../../src/terminal/connection.ts';

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
