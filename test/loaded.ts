/**
 * `npm run test:loaded -- [FILE...]`: the unit tests, with 20 busy loops on the same machine. A test that fails here and passes alone
 * waits for real time, or has too short a limit for what it computes.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';

const LOOPS = 20;

const loops = Array.from({ length: LOOPS }, () =>
  // a loop ends with this process, however that ends
  spawn(process.execPath, ['-e', 'for (const from = process.ppid; process.ppid === from; );'], {
    stdio: 'ignore',
  }),
);
const vitest = join(import.meta.dirname, '../node_modules/vitest/vitest.mjs');
const args = ['run', '--project', 'unit', ...process.argv.slice(2)];
const tests = spawn(process.execPath, [vitest, ...args], { stdio: 'inherit' });
const stop = () => tests.kill();
process.on('SIGINT', stop);
process.on('SIGTERM', stop);
tests.on('exit', (code) => {
  for (const loop of loops) loop.kill('SIGKILL');
  process.exitCode = code ?? 1;
});
