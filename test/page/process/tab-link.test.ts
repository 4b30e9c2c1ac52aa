/** The link of a tab: `run create` prints it for runs of a published base, `page --tab` serves what it opens. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { tabLines } from '../../../src/cli/shared/tab-link.ts';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

it('is printed by `run create` for a published base, and served by `page --tab`', async () => {
  const home = temporaryFolder();
  const base = await writeTinyLlama(join(home, 'tiny'));
  const corpus = join(home, 'text.txt');
  await writeFile(corpus, 'To be, or not to be: that is the question. '.repeat(50));
  const relay = await createRelay();
  const create = (...more: readonly string[]) =>
    runCommand(
      ...['run', 'create', '--relay', relay.url, '-o', join(home, 'run.json'), ...more],
      ...['--sec-key', '01'.repeat(32), '--corpus', corpus, '--context', '32', '--rounds', '2'],
    );
  const adapters = ['--base', base, '--rank', '4'];
  const { stdout } = await create(...adapters);
  const naddr = /run join (naddr1\w+)/.exec(stdout)?.[1];
  expect(stdout).toContain(`has one button:\n  nostrain page ${naddr} --tab\n`);
  const tab = 'https://example.org/tab.html';
  expect((await create(...adapters, '--tab', tab)).stdout).toContain(`\n  ${tab}#${naddr}\n`);
  const json = JSON.parse((await create(...adapters, '--tab', tab, '--json')).stdout);
  expect(json.tab).toBe(`${tab}#${naddr}`);
  const refused = await create(...adapters, '--tab', 'example.org');
  expect(refused.stderr).toContain('give https://… without a # part');
  expect((await create('--base', base, '--rank', '0')).stdout).not.toContain('--tab');
  await relay.close();
  const out = join(home, 'site');
  const written = await runCommand('page', naddr!, '--tab', '--out', out, '--json');
  const { tab: path, files } = JSON.parse(written.stdout);
  expect(path).toBe(`tab.html#${naddr}`);
  expect(files).toContain('ort/ort-wasm-simd-threaded.wasm');
  expect(await readFile(join(out, 'tab.html'), 'utf8')).toContain('tab.js');
  const unnamed = await runCommand('page', 'ab'.repeat(32), '--tab', '--out', out);
  expect(unnamed.stderr).toContain('name the run by its naddr1…');
});

it('is not printed for a run without a published base', () => {
  expect(tabLines({ start: null, tiers: 0 }, 'naddr1', undefined)).toEqual([]);
});
