/** The folder of a worker in a long run stops growing, and a replay of it still ends in the same roots. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { archiveRun, replayRun } from 'nostrain/certified';
import { startOf } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import type { Entry, Journal } from '../../src/certified/rounds/journal.ts';
import {
  createBackfillStore,
  readFinishedRounds,
  roundsFolder,
} from '../../src/node/files/finished-rounds.ts';
import { certifiedSpec, rootsOf } from '../support/certified-swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const FOUNDERS = [0, 1, 2];
const ROUNDS = 36;
const MAX_BYTES = 60_000;
const COPIES = 7815;

const inFolder = temporaryFolder();

/** Files come and go while it counts. */
const bytesIn = (dir: string): number =>
  readdirSync(dir)
    .map((name) => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0)
    .reduce((sum, bytes) => sum + bytes, 0);

it('keeps a bounded part of the past, since the oldest checkpoint at least; relays have the rest', async () => {
  const spec = certifiedSpec({
    ...{ founders: FOUNDERS, rounds: ROUNDS },
    document: { checkpoint: { every: 2, keep: 1 } },
    timing: { graceMinMs: 2000, graceMaxMs: 2000 },
  });
  const run = runIdOf(spec);
  const { layout } = startOf(spec);
  const dir = inFolder('worker');
  // votes stay in memory: the clock of the test does not wait for a disk
  let entry: Entry | undefined;
  const journal: Journal = {
    load: async () => entry,
    save: async (next) => {
      entry = structuredClone(next);
    },
    backfill: { ...createBackfillStore(roundsFolder(dir)), maxBytes: MAX_BYTES },
  };
  const swarm = createTimedSwarm(spec, 1);
  const members = FOUNDERS.map((index) =>
    swarm.start({ index, layout, ...(index === 0 && { journal }) }),
  );
  await swarm.finish(members, HOUR);
  // the disk lags behind the clock of the test
  const patient = { timeout: 30_000 };
  const last = async () => (await readFinishedRounds(dir))?.last;
  await expect.poll(last, patient).toBe(ROUNDS - 1);
  // without a limit, the folder would hold 200 kB
  await expect.poll(() => bytesIn(roundsFolder(dir)), patient).toBeLessThanOrEqual(MAX_BYTES);
  expect(bytesIn(roundsFolder(dir))).toBeGreaterThan(MAX_BYTES / 2);

  const past = (await readFinishedRounds(dir))!;
  expect(past.first).toBeGreaterThan(0);
  expect(past.first).toBeLessThanOrEqual(ROUNDS - 4);
  expect(past.last).toBe(ROUNDS - 1);

  // relays lose what decided the newest rounds, with all copies of it
  const kept = new Set(past.events.map(({ id }) => id));
  const lost = ({ id, kind }: SignedEvent) => kept.has(id) || kind === COPIES;
  const left = swarm.events.filter((event) => !lost(event));
  swarm.forget();
  for (const event of left) swarm.put(event);
  const replayed = async (local: readonly SignedEvent[]) => {
    const asked = { relays: swarm.connect(), signal: new AbortController().signal, local };
    return replayRun(await archiveRun(run, asked), { run, crypto: nativeCrypto });
  };
  expect((await replayed([])).rounds).toBeLessThan(ROUNDS);
  const roots = rootsOf(members[1]!);
  expect(await replayed(past.events)).toMatchObject({
    ...{ ok: true, rounds: ROUNDS, firstBad: null },
    modelRoot: roots.at(-1),
  });
}, 120_000);
