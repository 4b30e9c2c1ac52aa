/** Keys and workers as users type them. */
import { ConfigError } from '../../base/errors.ts';
import { readKey } from '../../run/field.ts';
import type { WorkerId } from '../../run/ids.ts';
import { fullName } from '../../run/worker-names.ts';

/** Returns the key that was typed. Throws a ConfigError with this code if it is not a public key. */
export function typedKey(text: string, code: string): WorkerId {
  const key = readKey(text);
  if (key !== undefined) return key;
  throw new ConfigError(code, `${text} is not a public key`, {
    hint: 'give npub1… or 64 hex digits; `nostrain whoami` prints your own',
  });
}

/** Maximum keys named in an error. */
const MOST_NAMED = 4;

/**
 * Returns the key that `--worker` names: a whole key, or the beginning of the npub of one worker. Throws a ConfigError
 * (`flag/worker`) if it fits none or several of them.
 */
export function workerNamed(text: string, workers: Iterable<WorkerId>): WorkerId {
  const key = readKey(text);
  if (key !== undefined) return key;
  const start = text.replace(/…$/, '');
  const fitting = [...new Set(workers)].filter(
    (worker) => start.startsWith('npub1') && fullName(worker).startsWith(start),
  );
  const [only, ...others] = fitting;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    throw new ConfigError('flag/worker', `--worker ${text} is no worker of these events`, {
      hint: 'give npub1…, its beginning, or 64 hex digits',
    });
  }
  const few = fitting.slice(0, MOST_NAMED).map(fullName).join(', ');
  throw new ConfigError('flag/worker', `--worker ${text} is the beginning of ${few}`, {
    hint: 'give more of it',
  });
}
