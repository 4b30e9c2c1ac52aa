/**
 * The same command lines in the Python reference and here. Set NOSTRAIN_PYTHON to an interpreter that has what the reference
 * needs, and NOSTRAIN_REFERENCE to a checkout of https://github.com/AbdelStark/nostrain.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadModelState as readStateFile } from 'nostrain/python/node';
import { stateDigest } from 'nostrain/tensor';
import { expect, it } from 'vitest';
import { python, pythonMissing } from '../../python/support/python.ts';
import { lines } from '../../python/support/reference-commands.ts';
import { invocations, writeReferenceFiles } from '../../python/support/reference-files.ts';
import { runCommand } from '../../support/command-line.ts';
import { describeWith } from '../../support/needs.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const DRIVER = fileURLToPath(new URL('drive.py', import.meta.url));
const FILE = /\.(?:json|txt|npz|pt|out)$/;

interface Outcome {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Recorded lines of the same commands are run too, those with fixed dates. */
const commands = new Set(lines.map(({ argv }) => argv[0]));
const recorded = invocations
  .filter(
    ({ argv }) => commands.has(argv[0]!) && !argv.includes('ck.json') && !argv.includes('cke.json'),
  )
  .map(({ argv, exit }) => ({ argv, exit, differs: undefined }));
const all = [...recorded, ...lines];

const folder = temporaryFolder();

/** Archives are what they hold: theirs are dated, and packed by another program. */
async function contentOf(path: string): Promise<string> {
  return path.endsWith('.npz') ? stateDigest(await readStateFile(path)) : readFile(path, 'utf8');
}

async function filesIn(path: string): Promise<Readonly<Record<string, string>>> {
  const names = (await readdir(path)).sort();
  const texts = await Promise.all(names.map((name) => contentOf(join(path, name))));
  return Object.fromEntries(names.map((name, i) => [name, texts[i]!]));
}

/** What each says from the first place on where they part. */
function firstDifference(ours: string, theirs: string): Readonly<Record<string, string>> {
  let at = 0;
  while (ours[at] === theirs[at]) at++;
  const part = (text: string) => text.slice(Math.max(0, at - 40), at + 40);
  return { ours: part(ours), theirs: part(theirs) };
}

describeWith(pythonMissing)('N-03: commands of the reference that need no relay', () => {
  it('write the same and end the same', { timeout: 600_000 }, async () => {
    const places = all.map((_, i) => ({
      ours: folder(`ours-${i}`),
      theirs: folder(`theirs-${i}`),
    }));
    for (const { ours, theirs } of places) {
      await writeReferenceFiles(ours);
      await writeReferenceFiles(theirs);
    }
    const wanted = all.map(({ argv }, i) => ({ argv, folder: places[i]!.theirs }));
    await writeFile(folder('wanted'), JSON.stringify(wanted));
    await python(DRIVER, folder('wanted'), folder('outcomes'));
    const outcomes: readonly Outcome[] = JSON.parse(await readFile(folder('outcomes'), 'utf8'));

    const unlike: unknown[] = [];
    for (const [i, { argv, exit, differs }] of all.entries()) {
      const { ours, theirs } = places[i]!;
      const words = argv.map((word) => (FILE.test(word) ? join(ours, word) : word));
      const printed = await runCommand(...words);
      const outcome = outcomes[i]!;
      const seen = {
        argv: argv.join(' '),
        exit: printed.exitCode,
        theirs: outcome.exit,
        recorded: exit,
      };
      if (seen.exit !== exit || seen.theirs !== exit)
        unlike.push({ ...seen, printed, stderr: outcome.stderr });
      else if (exit === 0 && differs === undefined) {
        if (printed.stdout !== outcome.stdout)
          unlike.push({ ...seen, ...firstDifference(printed.stdout, outcome.stdout) });
        const [left, right] = [await filesIn(ours), await filesIn(theirs)];
        const names = Object.keys({ ...left, ...right }).filter(
          (name) => left[name] !== right[name],
        );
        if (names.length > 0) unlike.push({ ...seen, names });
      }
    }
    expect(unlike).toEqual([]);
  });
});
