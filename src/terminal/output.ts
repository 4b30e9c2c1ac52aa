/** The way out: everything that commands write to stdout and stderr passes here and is made harmless (see `safe`). */
import { writeFile } from 'node:fs/promises';
import { ConfigError, safe, safeJson } from '../base/errors.ts';

/** To stdout; the text brings its own newline. */
export const writeOut = (text: string): void => void process.stdout.write(safe(text));

/** A line on stderr: progress, warnings and advice. */
export const writeNote = (line: string): void => void process.stderr.write(`${safe(line)}\n`);

/** A command's main result: whole to the file named with -o, or to stdout. */
export async function writeResult(text: string, output: string | undefined): Promise<void> {
  if (output === undefined) {
    writeOut(text);
    return;
  }
  await writeFile(output, text).catch((cause: unknown) => {
    throw new ConfigError('output/file', `cannot write ${output}`, {
      hint: 'name a file in a folder that exists and that you may write to',
      cause,
    });
  });
}

/** JSON as every command prints it: two spaces, newline at the end. */
export const asJson = (value: unknown): string => `${safeJson(value, 2)}\n`;
