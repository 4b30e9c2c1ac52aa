/** Where a command's main result goes: the file named with -o, or stdout. */
import { writeFile } from 'node:fs/promises';
import { ConfigError } from '../base/errors.ts';

export async function writeResult(text: string, output: string | undefined): Promise<void> {
  if (output === undefined) {
    process.stdout.write(text);
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
export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
