/** Reads text files such as stake lists and key lists; errors name the file and the line. */
import { readFile } from 'node:fs/promises';
import type { Result } from '../../base/errors.ts';
import { ConfigError } from '../../base/errors.ts';
import { parseKeyList } from '../../chain/stake-documents.ts';
import type { WorkerId } from '../../run/ids.ts';

/** Returns the text of a file. Throws `stake/file` if it cannot be read. */
export const readText = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('stake/file', `cannot read ${file}`, {
      hint: 'name an existing, readable file',
      cause,
    });
  });

/** Returns the value of a result. Throws `stake/file` with the file and position if it is an error. */
export function orRefuse<T>(file: string, result: Result<T>): T {
  if (result.ok) return result.value;
  throw new ConfigError('stake/file', `${file}: ${result.issue.at}: ${result.issue.message}`, {
    hint: 'docs/stake.md describes the file; `nostrain stake snapshot` creates one',
  });
}

/** Returns the keys of a file with one npub or hex key per line. */
export const readKeys = async (file: string): Promise<readonly WorkerId[]> =>
  orRefuse(file, parseKeyList(await readText(file)));
