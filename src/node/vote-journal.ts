/** What a worker signed in the round in progress, in one file that is replaced whole and synced: `votes.json`. */
import { readFile } from 'node:fs/promises';
import { CheckpointError } from '../base/errors.ts';
import { type Entry, formatEntry, type Journal, parseEntry } from '../certified/journal.ts';
import { writeWhole } from './whole-file.ts';

/** The journal in this file. */
export const createVoteJournal = (file: string): Journal => ({
  load: () => load(file),
  save: (entry) => writeWhole(file, new TextEncoder().encode(formatEntry(entry))),
});

async function load(file: string): Promise<Entry | undefined> {
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw broken(file, cause);
  });
  if (text === undefined) return undefined;
  try {
    const entry = parseEntry(text);
    if (entry !== undefined) return entry;
  } catch (cause) {
    throw broken(file, cause);
  }
  throw broken(file, undefined);
}

const broken = (file: string, cause: unknown): CheckpointError =>
  new CheckpointError('run/votes', `${file} cannot be read as what this worker signed`, {
    hint: 'without it the worker does not vote in the round in progress; move the file away to go on so',
    cause,
  });
