/**
 * A worker's journal in the texts that the program writes: the latest entry in memory, what decided each round in a file. All at once,
 * since a disk that is waited for would make the order of things a matter of luck.
 */
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Journal } from 'nostrain/certified';
import { formatEntry } from 'nostrain/certified/parts';
import { parseEntry } from '../../../src/certified/rounds/journal.ts';

export interface KeptJournal extends Journal {
  /** Bytes written so far. */
  readonly written: number;
}

export function createFolderJournal(folder: string, worker: number): KeptJournal {
  let entry: string | undefined;
  let written = 0;
  const kept = new Set<number>();
  const fileOf = (round: number) => join(folder, `${worker}-${round}`);
  return {
    get written() {
      return written;
    },
    load: async () => (entry === undefined ? undefined : parseEntry(entry)),
    save: async (made) => {
      entry = formatEntry(made);
      written += entry.length;
    },
    backfill: {
      load: async (round) => (kept.has(round) ? readFileSync(fileOf(round), 'utf8') : undefined),
      save: async (round, text) => {
        kept.add(round);
        written += text.length;
        writeFileSync(fileOf(round), text);
      },
      remove: async (round) => {
        kept.delete(round);
        rmSync(fileOf(round), { force: true });
      },
      sizes: async () => new Map([...kept].map((round) => [round, statSync(fileOf(round)).size])),
    },
  };
}
