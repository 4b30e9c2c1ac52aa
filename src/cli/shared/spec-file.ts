/** Run specs and parts of them in files: TOML where the name ends so, else JSON. What they say is judged elsewhere. */
import { readFile } from 'node:fs/promises';
import { parse, TomlError } from 'smol-toml';
import { ConfigError } from '../../base/errors.ts';
import { readJsonFile } from '../../node/files/json-file.ts';
import { isObject, type Untyped } from '../../run/spec/spec-readers.ts';

const HINT =
  'write it as JSON, or as TOML in a file that ends in .toml; docs/run-spec.md has examples';

/** The document in a file, or a `ConfigError` that names the file. */
export async function readDocument(
  file: string,
  what = 'the run spec',
  hint = HINT,
): Promise<Untyped> {
  const value = file.endsWith('.toml')
    ? await readToml(file, what, hint)
    : await readJsonFile(file, { code: 'spec/file', what, hint });
  if (isObject(value)) return value;
  throw new ConfigError('spec/file', `${file} is not an object of fields`, { hint });
}

async function readToml(file: string, what: string, hint: string): Promise<unknown> {
  const refuse = (message: string, cause: unknown) =>
    new ConfigError('spec/file', message, { hint, cause });
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw refuse(`cannot read ${what} ${file}`, cause);
  });
  try {
    return parse(text);
  } catch (cause) {
    const where = cause instanceof TomlError ? ` (line ${cause.line}, column ${cause.column})` : '';
    throw refuse(`${what} ${file} is not TOML${where}`, cause);
  }
}
