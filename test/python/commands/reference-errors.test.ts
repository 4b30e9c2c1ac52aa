/** Errors of the Python reference's commands: the same exit code, and one line that names the value. */
import { expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { lines } from '../support/reference-commands.ts';
import { writeReferenceFiles } from '../support/reference-files.ts';

const folder = temporaryFolder();
const FILE = /\.(?:json|txt|npz|out)$/;

it('N-03: ends as the reference does', { timeout: 240_000 }, async () => {
  await writeReferenceFiles(folder('files'));
  const unlike: unknown[] = [];
  for (const { argv, exit } of lines) {
    const words = argv.map((word) => (FILE.test(word) ? folder('files', word) : word));
    const printed = await runCommand(...words);
    const isWorded =
      /^error(?: \([a-z]+\/[a-z0-9-]+\))?: .+\n(?: {2}try: .+\n|\(add --help .+\n)?$/;
    const isClean = exit === 0 ? printed.stderr === '' : isWorded.test(printed.stderr);
    const isQuiet = exit === 0 || printed.stdout === '';
    if (printed.exitCode !== exit || !isClean || !isQuiet)
      unlike.push({ argv: argv.join(' '), exit, printed });
  }
  expect(unlike).toEqual([]);
});

it('N-03: tries ten things that go wrong with every command', () => {
  const commands = new Set(lines.map(({ argv }) => argv[0]!));
  const wrong = [...commands].map((command) => ({
    command,
    count: lines.filter(({ argv, exit }) => argv[0] === command && exit !== 0).length,
  }));
  expect(wrong.filter(({ count }) => count < 10)).toEqual([]);
});
