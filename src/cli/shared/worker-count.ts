/** How many workers train in a run without a spec: asked for if nothing says so, since a wrong guess stalls the run. */
import { createInterface } from 'node:readline/promises';
import { ConfigError } from '../../base/errors.ts';
import type { PartialSettings } from '../../run/settings.ts';

const MAX_WORKERS = 1024;
const QUESTION = 'How many workers train in this run (1 to train alone)? ';

const isCounted = ({ sync, waitFor }: PartialSettings): boolean =>
  sync !== undefined || waitFor !== undefined;

/** Returns settings with some number of workers, to check the others before anything is asked. */
export const assumingCount = (requested: PartialSettings): PartialSettings =>
  isCounted(requested) ? requested : { ...requested, sync: { strategy: 'strict', workers: 2 } };

/**
 * Returns the settings of a new run with the number of workers, which the user is asked for if nothing says it. Throws
 * a ConfigError (`flag/sync`) if there is no terminal to ask at.
 */
export async function withWorkerCount(
  requested: PartialSettings,
  signal: AbortSignal,
): Promise<PartialSettings> {
  if (isCounted(requested)) return requested;
  if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) {
    throw new ConfigError('flag/sync', 'nothing says how many workers train in this run', {
      hint: 'add --sync strict:N for N workers; strict:1 trains alone',
    });
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    for (;;) {
      const workers = readCount(await terminal.question(QUESTION, { signal }));
      if (workers !== undefined) return { ...requested, sync: { strategy: 'strict', workers } };
    }
  } finally {
    terminal.close();
  }
}

function readCount(answer: string): number | undefined {
  const count = Number(answer);
  return Number.isSafeInteger(count) && count >= 1 && count <= MAX_WORKERS ? count : undefined;
}

/** Returns what to know about a run of one worker; undefined if others are waited for. */
export const aloneNote = ({ sync }: PartialSettings): string | undefined =>
  sync?.strategy === 'strict' && sync.workers === 1
    ? 'this run has a single worker, which waits for no other; --sync strict:N is for N workers'
    : undefined;
