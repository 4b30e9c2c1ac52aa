/** Commands as processes: a relay runs until Ctrl-C, and `doctor` prints one document. */

import { fetchRelayInfo } from 'nostrain/node';
import { expect, it } from 'vitest';
import { runProgram, startProgram } from '../../support/processes.ts';

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

it('doctor prints one document, whatever the drivers of devices write', async () => {
  const { code, stdout, stderr } = await runProgram(['doctor', '--json']);
  // a slow machine prints progress
  const written = stderr.replace(/^training briefly on each device: \d+ s so far\n/gm, '');
  expect({ code, written }).toEqual({ code: 0, written: '' });
  expect(JSON.parse(stdout)).toMatchObject({ ok: true });
});
