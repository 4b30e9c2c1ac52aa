/** The lines of a file, one after the other, each bounded in length; blank ones are left out. */
import { concatBytes } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';

export interface Line {
  /** From 1, as editors count. */
  readonly number: number;
  readonly text: string;
}

const NEWLINE = 10;

/** Throws a ConfigError (`corpus/line`) that names the file and the line about one that is too long or no UTF-8. */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  { file, mostBytes }: { readonly file: string; readonly mostBytes: number },
): AsyncGenerator<Line> {
  let parts: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const take = (end: Uint8Array): Line | undefined => {
    const bytes = concatBytes(...parts, end);
    [parts, length] = [[], 0];
    try {
      const text = decoder.decode(bytes).trim();
      return text === '' ? undefined : { number, text };
    } catch (cause) {
      throw lineError(file, number, 'it is no UTF-8', cause);
    }
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      if (length + at - from > mostBytes) throw tooLong(file, number, mostBytes);
      const line = take(chunk.subarray(from, at));
      if (line) yield line;
      number++;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > mostBytes) throw tooLong(file, number, mostBytes);
  }
  const line = take(new Uint8Array());
  if (line) yield line;
}

const tooLong = (file: string, number: number, most: number): ConfigError =>
  lineError(file, number, `it is longer than ${most} bytes`);

/** What is wrong with one line of a corpus. */
export const lineError = (
  file: string,
  number: number,
  reason: string,
  cause?: unknown,
): ConfigError =>
  new ConfigError('corpus/line', `line ${number} of ${file} cannot be used: ${reason}`, {
    hint: 'each line of a .jsonl corpus is {"text": …}, {"prompt": …, "completion": …} or {"messages": […]}',
    data: { line: number },
    cause,
  });
