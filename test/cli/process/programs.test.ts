/** Commands as processes: a relay runs until Ctrl-C, the server of the API too, and `doctor` prints one document. */

import { readFile } from 'node:fs/promises';
import { fetchRelayInfo } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { runProgram, startProgram } from '../../support/processes.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const file = temporaryFolder();

it('a relay runs until Ctrl-C', async () => {
  const { child, exit, output } = startProgram(['relay', '--port', '0']);
  try {
    await expect.poll(() => output.stdout, { timeout: 20_000 }).toContain('\n');
    const url = /^relay at (ws:\S+)\n$/.exec(output.stdout)?.[1];
    expect(await fetchRelayInfo(url!)).toMatchObject({
      ok: true,
      value: { supportedNips: expect.arrayContaining([1, 11, 40]) },
    });
    child.kill('SIGINT');
    expect(await exit).toBe(0);
  } finally {
    child.kill('SIGKILL');
  }
});

it('T-19 serve makes a token, and answers to it until Ctrl-C', async () => {
  const relay = await createRelay();
  const token = file('token');
  const flags = ['serve', '--listen', '127.0.0.1:0', '--relay', relay.url, '--token-file', token];
  const { child, exit, output } = startProgram(flags);
  try {
    await expect.poll(() => output.stdout, { timeout: 50_000 }).toContain('\n');
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'listRuns' });
    const authorization = `Bearer ${(await readFile(token, 'utf8')).trim()}`;
    const answer = await fetch(output.stdout.trim(), {
      method: 'POST',
      body,
      headers: { authorization },
    });
    expect(await answer.json()).toEqual({ jsonrpc: '2.0', id: 1, result: { runs: [] } });
    child.kill('SIGINT');
    expect(await exit).toBe(0);
  } finally {
    child.kill('SIGKILL');
    await relay.close();
  }
});

it('doctor prints one document, whatever the drivers of devices write', async () => {
  const { code, stdout, stderr } = await runProgram(['doctor', '--json']);
  // a slow machine prints progress
  const written = stderr.replace(/^training briefly on each device: \d+ s so far\n/gm, '');
  expect({ code, written }).toEqual({ code: 0, written: '' });
  expect(JSON.parse(stdout)).toMatchObject({ ok: true });
});
