/** Picture files as lines of JSON, so that they are sealed and divided like other data. */
import { fromBase64, toBase64, utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import type { PictureFile } from '../../model/data/pictures.ts';
import type { MemoryData } from './corpus.ts';

/** Picture files and the names of their classes. */
export interface PictureFiles {
  readonly classes: readonly string[];
  readonly files: readonly PictureFile[];
}

/** Returns one line per picture: class, file name, and the file in base64. Classes take turns, so each part has all. */
export async function linesOf({ classes, files }: PictureFiles): Promise<Uint8Array> {
  const each = classes.map((name) => files.filter((file) => file.class === name));
  const turns = Array.from({ length: Math.max(0, ...each.map(({ length }) => length)) }, (_, i) =>
    each.flatMap((of) => of[i] ?? []),
  );
  const lines: string[] = [];
  for (const { class: of, name, read } of turns.flat()) {
    lines.push(`${JSON.stringify({ class: of, name, data: toBase64(await read()) })}\n`);
  }
  return utf8(lines.join(''));
}

/** Reads such lines. Throws `data/pictures` with the number of a line that is not a picture. */
export function picturesIn({ name: source, bytes }: MemoryData): PictureFiles {
  const lines = new TextDecoder().decode(bytes).split('\n').filter(Boolean);
  const files = lines.map((line, i): PictureFile => {
    const { class: of, name, data } = (jsonIn(line) ?? {}) as Record<string, unknown>;
    const file = typeof data === 'string' ? fromBase64(data) : undefined;
    if (typeof of === 'string' && typeof name === 'string' && file !== undefined) {
      return { class: of, name, read: async () => file };
    }
    throw new ConfigError('data/pictures', `line ${i + 1} of ${source} is not a picture`, {
      hint: 'ask the owner of the data to seal the folder again',
    });
  });
  return { classes: [...new Set(files.map((file) => file.class))].sort(), files };
}
