/**
 * The record of a run of 500 rounds by 8 keys of a GPT with 10,704 parameters: made (drawn contributions, real events, all signed), kept as a folder,
 * and replayed from it; seconds of wall time and of the processor.
 *   node --import tsx --conditions=nostrain:source test/bench/record.ts FOLDER [ROUNDS]
 * A folder that has the run already is only kept and replayed again.
 */
import { existsSync } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { formatArchive } from '../../src/certified/archive.ts';
import { replayRun } from '../../src/certified/replay-run.ts';
import { readArchiveFile } from '../../src/cli/shared/archive-source.ts';
import { eventsIn, openRecord, writeRecord } from '../../src/cli/shared/record-folder.ts';
import { nativeCrypto } from '../../src/node/native-crypto.ts';
import { nativeSha256 } from '../../src/node/native-sha256.ts';
import { presets } from '../../src/run/presets.ts';
import { completeSettings, sharedNames, writeSettings } from '../../src/run/settings.ts';
import { certifiedSpec, foundersOf, generateRun, type Round } from '../support/certified-run.ts';

const [folder = '/tmp/record', count = '500'] = process.argv.slice(2);
const KEYS = 8;

async function timed<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  const [from, used] = [performance.now(), process.cpuUsage()];
  const result = await work();
  const { user, system } = process.cpuUsage(used);
  const seconds = [(performance.now() - from) / 1000, (user + system) / 1e6];
  const words = seconds.map((each) => each.toFixed(1)).join(' s, of the processor ');
  process.stdout.write(`${what}: ${words} s\n`);
  return result;
}

function makeRun(): string {
  const rounds = Number(count);
  const small = { tokens: 'bytes', width: 16, layers: 1, heads: 2, context: 16, ffn: 32 } as const;
  const asked = { ...small, model: 'gpt', relay: [], run: 'record', rounds } as const;
  const all = writeSettings(completeSettings(presets.gpt, asked));
  const isShared = ([name]: readonly [string, unknown]) =>
    sharedNames.some((each) => each === name);
  const shared = Object.fromEntries(Object.entries(all).filter(isShared));
  const spec = certifiedSpec({
    founders: foundersOf(KEYS),
    data: { kind: 'own' },
    limits: { payloadBytes: 200_000, weightCap: 25 * 32 },
    training: { ...shared, rounds },
  });
  const { events } = generateRun(new Array<Round>(rounds).fill({}), spec, [], undefined, 3);
  return formatArchive({ events, beacons: [] });
}

const options = { crypto: nativeCrypto, sha256: nativeSha256 };
await mkdir(folder, { recursive: true });
const file = eventsIn(folder);
if (!existsSync(file)) await timed('made', async () => writeFile(file, makeRun()));
const archive = await readArchiveFile(file);
const { size } = await stat(file);
process.stdout.write(`${archive.events.length} events, ${size} bytes\n`);
const keeping = { ...options, every: 100, chunkBytes: 2 ** 20 };
const { record } = await timed('kept', () => writeRecord(folder, archive, keeping));
const report = await timed('read and replayed', async () => {
  const kept = await openRecord(folder);
  return replayRun(await readArchiveFile(file), { ...options, states: kept?.states });
});
const full = report.lines.filter(({ checked }) => checked === 'full').length;
process.stdout.write(`${full} rounds in full, model ${report.modelRoot}, run ${report.runRoot}\n`);
process.stdout.write(`as recorded: ${record.modelRoot === report.modelRoot && report.ok}\n`);
