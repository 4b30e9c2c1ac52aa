/** Output of the program: sanitized text on stdout and stderr (see `safe`), result files, and exit codes. */
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { ConfigError, safe, safeJson, safeLine } from '../base/errors.ts';
import { clip } from './render/text.ts';

/** Writes to stdout; the text includes its newline. */
export const writeOut = (text: string): void => void process.stdout.write(safe(text));

/** Writes a line to stderr: progress, warnings and hints. */
export const writeNote = (line: string): void => void process.stderr.write(`${safe(line)}\n`);

/** Stderr: for progress and questions of a command whose stdout is a document. */
export const noteStream: NodeJS.WriteStream = process.stderr;

/** Writes the main result of a command to the file of -o, or to stdout. */
export async function writeResult(text: string, output: string | undefined): Promise<void> {
  if (output === undefined) writeOut(text);
  else await writeOutput(output, text);
}

/** Writes a file that the user named. Throws a ConfigError (`output/file`) if it cannot be written. */
export const writeOutput = (file: string, content: string | Uint8Array): Promise<void> =>
  writeFile(file, content).catch((cause: unknown) => {
    throw new ConfigError('output/file', `cannot write ${file}`, {
      hint: 'name a file in an existing, writable folder',
      cause,
    });
  });

/** Returns JSON as every command prints it: two spaces, newline at the end. */
export const asJson = (value: unknown): string => `${safeJson(value, 2)}\n`;

export const exitCodes = {
  done: { code: 0, means: 'Success, also of help and version.' },
  failed: {
    code: 1,
    means:
      'Failed, or the answer is negative: an unusable relay, a replay that finds a wrong ' +
      'round, workers of a demo that disagree. The reason is on stderr.',
  },
  usage: {
    code: 2,
    means: 'The command line or a settings file is invalid: an unknown flag, an invalid value.',
  },
  interrupted: {
    code: 128 + constants.signals.SIGINT,
    means: 'Stopped by Ctrl-C (SIGINT). Training is saved; run the same command again to resume.',
  },
  terminated: {
    code: 128 + constants.signals.SIGTERM,
    means: 'Stopped by SIGTERM, for example by a service manager; otherwise like Ctrl-C.',
  },
} as const;

type Stream = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns'>;

/** Clears the line of the cursor. */
const CLEAR = '\r\x1b[K';

/** Writes lines that stay, and below them one that is repainted: on a terminal in place, elsewhere at each change. */
export function createRepainter(stream: Stream = process.stdout) {
  let shown = '';
  return {
    /** Writes a line that stays. */
    write(line: string): void {
      const isPainted = stream.isTTY && shown !== '';
      stream.write(`${isPainted ? CLEAR : ''}${safeLine(line)}\n`);
      shown = '';
    },
    repaint(line: string): void {
      if (line === shown) return;
      shown = line;
      // one column stays free, because terminals wrap at the last one
      const width = (stream.columns || 80) - 1;
      if (stream.isTTY) stream.write(`${CLEAR}${clip(safeLine(line), width)}`);
      else stream.write(`${safeLine(line)}\n`);
    },
    /** Moves below the last line, for what other parts of the program write. */
    end(): void {
      if (stream.isTTY && shown !== '') stream.write(safe('\n'));
      shown = '';
    },
  };
}
