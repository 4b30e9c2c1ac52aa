import { writeFile } from 'node:fs/promises';
import { initialParameters, modelLayout } from 'nostrain/model';
import { writeModelState as writeStateFile } from 'nostrain/python/node';
import { expect, it } from 'vitest';
import { runCommand } from '../../support/command-line.ts';
import { signerOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const file = temporaryFolder();
const OBEYED = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
/** Clears the screen, sets the title, colors by C1, turns the line around. */
const ATTACK = 'x\u001b[2J\u001b]0;title\u0007\u009b31m\u202egnp\u2066';

const expectHarmless = ({ stdout, stderr }: { stdout: string; stderr: string }) => {
  expect(stdout + stderr).not.toBe('');
  expect(stdout).not.toMatch(OBEYED);
  expect(stderr).not.toMatch(OBEYED);
};

it.each(['relay', 'capability'])('inspect-event shows no escape of a tag: %s', async (tag) => {
  const worker = signerOf(1);
  const event = worker.sign({
    ...{ kind: 33_334, created_at: 1_700_000_000, content: '' },
    tags: [
      ['d', `run:r:worker:${worker.publicKey}`],
      ...[
        ['t', 'nostrain'],
        ['run', 'r'],
        ['worker', worker.publicKey],
      ],
      ...[
        ['round', '0'],
        ['heartbeat', '60'],
        [tag, ATTACK],
        ['s', 'r'],
      ],
    ],
  });
  await writeFile(file('event.json'), JSON.stringify(event));
  expectHarmless(await runCommand('inspect-event', file('event.json')));
  expectHarmless(await runCommand('inspect-event', file('event.json'), '--json'));
});

it('run inspect names what is wrong with a spec without its escapes', async () => {
  await writeFile(file('run.json'), JSON.stringify({ name: ATTACK, [ATTACK]: ATTACK }));
  const printed = await runCommand('run', 'inspect', file('run.json'));
  expect(printed.exitCode).not.toBe(0);
  expectHarmless(printed);
});

it('sample with bytes writes none of those that a terminal obeys', {
  timeout: 120_000,
}, async () => {
  const model = {
    ...({ architecture: 'gpt', vocabulary: 256, width: 8, layers: 1, heads: 1 } as const),
    ...{ context: 8, ffn: 8 },
  };
  const values = Float64Array.from(initialParameters(model, 1));
  await writeStateFile(file('state.json'), { layout: modelLayout(model), values });
  const sizes = [
    '--set',
    'width=8',
    '--set',
    'layers=1',
    '--set',
    'heads=1',
    '--context',
    '8',
    '--set',
    'ffn=8',
  ];
  const printed = await runCommand(
    ...['sample', file('state.json'), '--set', 'tokens=bytes', ...sizes],
    ...['--temperature', '100', '--length', '600'],
  );
  expect(printed.exitCode).toBe(0);
  expect(printed.stdout.length).toBeGreaterThan(300);
  expectHarmless(printed);
});

it('a slip that quotes what was typed is harmless', async () => {
  expectHarmless(await runCommand(ATTACK));
  expectHarmless(await runCommand('hash-state', file(`${ATTACK}.json`)));
});
