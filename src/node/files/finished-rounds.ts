/**
 * The finished rounds in a worker's folder: one file each with the events that decided it. The worker removes the
 * oldest ones; archives and replays of a local run read the others in addition to relays.
 */
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BackfillStore } from '../../certified/rounds/journal.ts';
import { parseKeptRound } from '../../certified/rounds/keep-round.ts';
import { type SignedEvent, verifyEvent } from '../../network/event.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { writeAtomically } from './atomic-file.ts';

/** Returns the folder of the finished rounds in a worker's folder. */
export const roundsFolder = (dir: string): string => join(dir, 'past');

const NAME = /^(0|[1-9]\d{0,8})\.json$/;

const fileOf = (folder: string, round: number): string => join(folder, `${round}.json`);

const load = (folder: string, round: number): Promise<string | undefined> =>
  readFile(fileOf(folder, round), 'utf8').catch(() => undefined);

/** Returns the rounds that have a file, in ascending order; none if there is no folder. */
async function roundsIn(folder: string): Promise<readonly number[]> {
  const names = await readdir(folder).catch(() => []);
  return names.flatMap((name) => Number(NAME.exec(name)?.[1] ?? [])).sort((a, b) => a - b);
}

export const createBackfillStore = (folder: string): BackfillStore => ({
  async save(round, text) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeAtomically(fileOf(folder, round), new TextEncoder().encode(text));
  },
  load: (round) => load(folder, round),
  remove: (round) => rm(fileOf(folder, round), { force: true }),
  async sizes() {
    const rounds = await roundsIn(folder);
    const sizes = rounds.map(async (round): Promise<[number, number]> => {
      const { size } = await stat(fileOf(folder, round));
      return [round, size];
    });
    return new Map(await Promise.all(sizes));
  },
});

/** Finished rounds that a worker's folder has. */
export interface FinishedRounds {
  /** First and last of them. */
  readonly first: number;
  readonly last: number;
  /** The events that decided them, verified. */
  readonly events: readonly SignedEvent[];
}

/** Reads the finished rounds in a worker's folder; undefined if it has none. Skips files that are not readable. */
export async function readFinishedRounds(dir: string): Promise<FinishedRounds | undefined> {
  const folder = roundsFolder(dir);
  const [rounds, events]: [number[], SignedEvent[]] = [[], []];
  for (const round of await roundsIn(folder)) {
    const kept = parseKeptRound((await load(folder, round)) ?? '');
    if (!kept) continue;
    rounds.push(round);
    events.push(...kept.events.filter((event) => verifyEvent(event, nativeCrypto).ok));
  }
  const [first] = rounds;
  return first === undefined ? undefined : { first, last: rounds.at(-1)!, events };
}
