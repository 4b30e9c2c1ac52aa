import { createRelay } from 'nostrain/relay';
import { afterEach, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const NOWHERE = 'ws://127.0.0.1:9';

it('one usable relay is enough for the exit code', async () => {
  const { url, close } = await createRelay({ name: 'mine' });
  stops.push(close);
  const printed = await runCommand('relays', 'check', url, NOWHERE, url);
  expect(printed.exitCode).toBe(0);
  const rows = printed.stdout.split('\n').slice(0, 4);
  expect(rows[0]).toMatch(/^relay .* carries$/);
  expect(rows.find((row) => row.startsWith(url))).toMatch(/256 KiB\+ .* chunks$/);
  expect(rows.find((row) => row.startsWith(NOWHERE))).toMatch(/UNUSABLE$/);
  expect(rows[3]).toBe('');
});

it('none is not, and JSON says the same', async () => {
  const { exitCode, stdout } = await runCommand('relays', 'check', NOWHERE, '--json');
  expect(exitCode).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject([
    { url: NOWHERE, carries: 'nothing', problem: expect.stringContaining('ECONNREFUSED') },
  ]);
});

it.each([
  [['relays', 'check'], "missing required argument 'url'"],
  [['relays', 'chek', NOWHERE], "unknown command 'chek'"],
  [['relays', 'check', 'http://x.example'], 'not a relay address: "http://x.example"'],
  [['relays', 'check', NOWHERE, '--seconds', '0'], '--seconds is "0"'],
  [['plan'], 'nothing to plan: give --model NAME or --payload-bytes N'],
  [['plan', '--payload-bytes', '0'], '--payload-bytes is "0"'],
  [['plan', '--model', 'linear', '--workers', 'x'], '--workers is "x"'],
])('%j says what was meant', async (argv, message) => {
  const printed = await runCommand(...argv);
  expect(printed.exitCode).not.toBe(0);
  expect(printed.stdout).toBe('');
  expect(printed.stderr).toContain(message);
  expect(printed.stderr).not.toMatch(/^ {4}at /m);
});
