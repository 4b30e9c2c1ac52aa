/** Reads files such as stake lists and key lists, with errors that name file and line; writes specs. */
import { readFile, writeFile } from 'node:fs/promises';
import type { Result } from '../../base/errors.ts';
import { ConfigError } from '../../base/errors.ts';
import { parseKeyList } from '../../chain/stake-documents.ts';
import type { WorkerId } from '../../run/ids.ts';
import { canonicalSpec, type RunSpec } from '../../run/spec/run-spec.ts';
import { asJson } from '../../terminal/output.ts';

/** Returns the bytes of a file. Throws a ConfigError with this code and hint if the file cannot be read. */
export const readBytes = (file: string, code: string, hint: string): Promise<Uint8Array> =>
  readFile(file).catch((cause: unknown) => {
    throw new ConfigError(code, `cannot read ${file}`, { hint, cause });
  });

/** Returns the text of a file. Throws a ConfigError, `stake/file` unless given, if the file cannot be read. */
export const readText = async (
  file: string,
  code = 'stake/file',
  hint = 'name an existing, readable file',
): Promise<string> => Buffer.from(await readBytes(file, code, hint)).toString('utf8');

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

/** Writes the spec. Never overwrites the spec of another run; the same spec may be created and published again. */
export async function writeSpec(file: string, spec: RunSpec): Promise<void> {
  const text = asJson(JSON.parse(canonicalSpec(spec)));
  const before = await readFile(file, 'utf8').catch(() => undefined);
  if (before === text) return;
  await writeFile(file, text, { flag: 'wx' }).catch((cause: unknown) => {
    const exists = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    throw new ConfigError(
      'output/file',
      exists ? `${file} exists and was not overwritten` : `cannot write ${file}`,
      { hint: 'name another file with -o FILE', cause },
    );
  });
}
