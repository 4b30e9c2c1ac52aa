/** The name of a run stands for its path, its address and its id, in every command that takes one of them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../../support/processes.ts';

const home = temporaryFolder();
const cwd = temporaryFolder();
let relay: Relay;
let run: string;

const nostrain = (...args: readonly string[]) => runProgram(args, home, cwd);

async function prints(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await nostrain(...args);
  expect(code, stderr).toBe(0);
  return stdout;
}

beforeAll(async () => {
  relay = await createRelay();
  const sizes = ['--model', 'linear', '--rounds', '2', '--inner-steps', '3'];
  const document = ['--relay', relay.url, '--name', 'winter', '--json', '-o', 'winter.run.json'];
  const made = JSON.parse(await prints('run', 'create', ...sizes, ...document));
  run = made.run;
  await prints('run', 'join', made.naddr, '--allow-private-relays', '--report', 'plain');
}, 120_000);
afterAll(() => relay.close());

describe('a run that was joined is known by its name', () => {
  it('runs and show', async () => {
    const { runs } = JSON.parse(await prints('runs', '--json'));
    expect(runs).toMatchObject([{ name: 'winter', kind: 'certified', state: 'finished', run }]);
    expect(await prints('show', 'winter')).toContain('2 of 2 rounds');
  });

  it('run inspect', async () => {
    expect(JSON.parse(await prints('run', 'inspect', 'winter', '--json')).run).toBe(run);
  });

  it('archive and replay, over the relays it was joined over', async () => {
    const file = join(cwd, 'events.jsonl');
    expect(await prints('archive', '--run', 'winter', '--out', file)).toContain(' events, ');
    expect(readFileSync(file, 'utf8')).toContain(run);
    expect(JSON.parse(await prints('replay', '--run', 'winter', '--json'))).toMatchObject({
      ok: true,
      run,
    });
    expect(JSON.parse(await prints('replay', '--run', run.slice(0, 8), '--json')).ok).toBe(true);
  });

  it('run join, which has nothing left to do', async () => {
    await prints('run', 'join', 'winter', '--report', 'plain');
  });

  it('says which names there are', async () => {
    const { code, stderr } = await nostrain('replay', '--run', 'summer');
    expect(code).toBe(2);
    expect(stderr).toContain('nostrain runs');
  });

  it('an archive of a run that no relay knows is a failure', async () => {
    const other = '0'.repeat(64);
    const words = await nostrain(
      'archive',
      '--run',
      other,
      '--relay',
      relay.url,
      '--out',
      'none.jsonl',
    );
    expect(words).toMatchObject({ code: 1, stderr: expect.stringContaining('archive/empty') });
  });

  it('clean', async () => {
    await prints('clean', 'winter', '--yes');
    expect(JSON.parse(await prints('runs', '--json')).runs).toEqual([]);
    expect(existsSync(join(home, 'key'))).toBe(true);
  });
});
