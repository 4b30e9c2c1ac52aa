/** Text files a person names: read, or an error that names the file. */
import { readFile } from 'node:fs/promises';
import { ConfigError } from '../../../base/errors.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../json.ts';

/** The text of a file without blanks around it. */
export async function readTextFile(path: string, what: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    throw new ConfigError('input/file', `cannot read ${what} ${path}`, {
      hint: 'name a file that exists and that you may read',
      cause,
    });
  });
  if (text.trim() !== '') return text.trim();
  throw new ConfigError('input/empty', `${path} is empty; it must be ${what}`);
}

/** The JSON object in a text that a file held; integers and floats kept apart. */
export function readJsonText(text: string, path: string, what: string): JsonObject {
  const json = parseJson(text);
  if (json.ok && isJsonObject(json.value)) return json.value;
  const why = json.ok ? 'not a JSON object' : json.issue.message;
  throw new ConfigError('input/json', `${path} is not ${what}: ${why}`);
}
