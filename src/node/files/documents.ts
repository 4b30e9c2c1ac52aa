/** Reads documents in JSON, or in TOML if the name ends in `.toml`. Throws a ConfigError that names the file. */

import { readFile } from 'node:fs/promises';
import { parse as parseToml, TomlError } from 'smol-toml';
import { ConfigError } from '../../base/errors.ts';
import { isObject, type Untyped } from '../../base/shape.ts';

export interface DocumentWords {
  /** Code of the error, such as `settings/file`. */
  readonly code: string;
  /** Role of the file in messages, such as `the settings file`. */
  readonly what: string;
  readonly hint: string;
}

export const readJsonFile = (file: string, words: DocumentWords): Promise<unknown> =>
  readWith(file, words, 'JSON', JSON.parse);

const HINT =
  'write it as JSON, or as TOML in a file that ends in .toml; docs/run-spec.md has examples';

/** Returns the object in a document. Throws a ConfigError (`spec/file`) that names the file. */
export async function readDocument(
  file: string,
  what = 'the run spec',
  hint = HINT,
): Promise<Untyped> {
  const words = { code: 'spec/file', what, hint };
  const value = file.endsWith('.toml')
    ? await readWith(file, words, 'TOML', parseToml)
    : await readJsonFile(file, words);
  if (isObject(value)) return value;
  throw new ConfigError('spec/file', `${file} is not an object of fields`, { hint });
}

async function readWith(
  file: string,
  { code, what, hint }: DocumentWords,
  format: string,
  parse: (text: string) => unknown,
): Promise<unknown> {
  const refuse = (message: string, cause: unknown) =>
    new ConfigError(code, message, { hint, cause });
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw refuse(`cannot read ${what} ${file}`, cause);
  });
  try {
    return parse(text);
  } catch (cause) {
    const where = cause instanceof TomlError ? ` (line ${cause.line}, column ${cause.column})` : '';
    throw refuse(`${what} ${file} is not ${format}${where}`, cause);
  }
}
