/** What a person reads when something failed: one line that names the thing, one with the next step. */
import { NostrainError } from '../base/errors.ts';

/** Codes that say the command line itself is wrong. */
const USAGE = /^(flag\/|settings\/(type|unknown|missing)$)/;

export interface WordedError {
  readonly text: string;
  /** 2 when the command line is wrong, else 1: as the Python reference does. */
  readonly exitCode: 1 | 2;
}

export function wordError(error: unknown): WordedError {
  if (error instanceof NostrainError) {
    const hint = error.hint === undefined ? '' : `\n  try: ${error.hint}`;
    const text = `error (${error.code}): ${error.message}${hint}`;
    return { text, exitCode: USAGE.test(error.code) ? 2 : 1 };
  }
  if (error instanceof Error && error.name === 'AbortError')
    return { text: 'stopped', exitCode: 1 };
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text: `internal error, please report it: ${text}`, exitCode: 1 };
}
