/** JSON files a person names: read and parsed, or a ConfigError that names the file. */
import { readFile } from 'node:fs/promises';
import { ConfigError } from '../../base/errors.ts';

export interface JsonFileWords {
  /** Of the error: `settings/file`. */
  readonly code: string;
  /** What the file is for: `the settings file`. */
  readonly what: string;
  readonly hint: string;
}

export async function readJsonFile(file: string, words: JsonFileWords): Promise<unknown> {
  const { code, what, hint } = words;
  const refuse = (message: string, cause: unknown) =>
    new ConfigError(code, message, { hint, cause });
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw refuse(`cannot read ${what} ${file}`, cause);
  });
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw refuse(`${what} ${file} is not JSON`, cause);
  }
}
