/** What the program gives back: text on stdout and stderr, made harmless (see `safe`), files, and exit codes. */
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
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

export const exitCodes = {
  done: { code: 0, means: 'Done. Help and version end so too.' },
  failed: {
    code: 1,
    means:
      'Failed, or the answer is no: a relay that is of no use, a replay that finds a wrong ' +
      'round, workers of a demo that disagree. The reason is on stderr.',
  },
  usage: {
    code: 2,
    means: 'The command line or a settings file is wrong: an unknown flag, a value that cannot be.',
  },
  interrupted: {
    code: 128 + constants.signals.SIGINT,
    means: 'Stopped by Ctrl-C (SIGINT). What was trained is saved; the same command goes on.',
  },
  terminated: {
    code: 128 + constants.signals.SIGTERM,
    means: 'Stopped by SIGTERM, as a service manager sends it; like Ctrl-C.',
  },
} as const;
