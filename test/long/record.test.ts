/** The public record: 500 rounds by 8 keys, kept as a folder, replayed in Node.js and by the run page in Chromium, with the same roots in all three. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = temporaryFolder();
const script = fileURLToPath(new URL('../bench/record.ts', import.meta.url));

it('a run of 500 rounds is proved from its file, here and in a browser', async () => {
  const args = ['--import', 'tsx', '--conditions=nostrain:source', script, at('record')];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toContain('500 rounds in full');
  expect(stdout).toMatch(/Proved: all 500 rounds|not replayed in a browser/);
  expect(stdout).toContain('as recorded: true');
}, 3_600_000);
