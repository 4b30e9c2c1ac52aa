/** Text files of commands, such as lists of stakes and keys; errors name the file and the line. */
import { readFile } from 'node:fs/promises';
import type { Result } from '../../base/errors.ts';
import { ConfigError } from '../../base/errors.ts';
import { parseKeyList } from '../../chain/stake-documents.ts';
import type { WorkerId } from '../../run/ids.ts';

/** Text of a file, or a ConfigError that names it. */
export const readText = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('stake/file', `cannot read ${file}`, {
      hint: 'name a file that is there and that you may read',
      cause,
    });
  });

/** The value, or a ConfigError that names the file and the position. */
export function orRefuse<T>(file: string, result: Result<T>): T {
  if (result.ok) return result.value;
  throw new ConfigError('stake/file', `${file}: ${result.issue.at}: ${result.issue.message}`, {
    hint: 'docs/stake.md says what such a file holds; `nostrain stake snapshot` makes one',
  });
}

/** Keys of a file, one npub or hex key per line. */
export const readKeys = async (file: string): Promise<readonly WorkerId[]> =>
  orRefuse(file, parseKeyList(await readText(file)));
