/** `nostrain runs`, `show` and `clean` over folders as workers leave them. */
import { existsSync } from 'node:fs';
import { readdir, readFile, rename, symlink, utimes, writeFile } from 'node:fs/promises';
import { takeLock } from 'nostrain/node/parts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';
import { keepRun, SECRET } from '../../../support/local-runs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const home = temporaryFolder();
beforeEach(() => {
  vi.stubEnv('NOSTRAIN_HOME', home());
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const winter = (...names: readonly string[]) => home('runs', 'winter', ...names);
const lines = (text: string) => text.split('\n');

describe('runs', () => {
  it('says where runs would be when there are none', async () => {
    const { exitCode, stdout } = await runCommand('runs');
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`no runs in ${home()} yet`);
    expect(JSON.parse((await runCommand('runs', '--json')).stdout)).toEqual({
      home: home(),
      runs: [],
    });
  });

  it('lists a line per run, and the same as JSON', async () => {
    await keepRun(winter(), { done: 2, rounds: 4 });
    await keepRun(home('runs', 'summer'), { done: 3, rounds: 3 });
    const { stdout } = await runCommand('runs');
    expect(stdout).toMatch(/summer +averaging +finished +3\/3 +2\.0000 +[\d.]+ kB +now/);
    expect(stdout).toMatch(/winter +averaging +stopped +2\/4 +2\.5000/);
    expect(stdout).toContain('2 runs, ');
    const { runs } = JSON.parse((await runCommand('runs', '--json')).stdout);
    expect(runs[1]).toMatchObject({
      ...{ name: 'winter', kind: 'averaging', state: 'stopped', roundsDone: 2, rounds: 4 },
      ...{ validationLoss: 2.5, trainingLoss: 3.5, folder: winter(), parameters: 7 },
      modelFile: winter('state.safetensors'),
    });
  });
});

describe('show', () => {
  const sample = 'O <Romeo> "& Juliet"\n\u001b[31mred';

  it('draws the curve and says where the model is and how to go on writing', async () => {
    await keepRun(winter(), {
      done: 3,
      rounds: 4,
      settings: { model: 'char-gpt' },
      last: { sample },
    });
    const { exitCode, stdout } = await runCommand('show', 'winter');
    expect(exitCode).toBe(0);
    expect(stdout).toContain(
      'winter  averaging · char-gpt · 7 parameters · stopped · 3 of 4 rounds',
    );
    expect(stdout).toMatch(/^3\.0000 │████/m);
    expect(stdout).toMatch(/^ +3 +2\.0000 +3\.0000 +2 +0 +1\.0 kB +2 s +strict$/m);
    expect(stdout).toContain(`model   ${winter('state.safetensors')}`);
    expect(stdout).toMatch(/write more text with: .* sample winter$/m);
    expect(stdout).toContain('  │ O <Romeo> "& Juliet"');
    expect(stdout).not.toContain('\u001b');
    expect(
      Math.max(
        ...lines(stdout)
          .slice(0, 14)
          .map((line) => line.length),
      ),
    ).toBeLessThan(80);
  });

  it('shows a run that has finished no round', async () => {
    await keepRun(winter(), { done: 0, rounds: 4 });
    expect((await runCommand('show', 'winter')).stdout).toContain('no round is finished yet');
  });

  it('writes CSV, counted from 1, to stdout or a file', async () => {
    await keepRun(winter(), { done: 2, rounds: 4 });
    const { stdout } = await runCommand('show', 'winter', '--csv', '-');
    expect(lines(stdout)[0]).toMatch(/^round,validationLoss,trainingLoss,counted,/);
    expect(lines(stdout)[1]).toMatch(/^1,3,4,2,0,90,1000,1,0.5,2,strict,d+0,$/);
    await runCommand('show', 'winter', '--csv', home('w.csv'));
    expect(await readFile(home('w.csv'), 'utf8')).toBe(stdout);
  });

  it('says how many pictures are right, and what losses count', async () => {
    await keepRun(winter(), {
      ...{ done: 2, rounds: 4, settings: { model: 'vit' }, last: { accuracy: 0.9725 } },
    });
    const { stdout } = await runCommand('show', 'winter');
    expect(stdout).toContain('losses are nats per picture');
    expect(stdout).toMatch(/round +validation +right +training/);
    expect(stdout).toContain('97.3 %');
    const { stdout: csv } = await runCommand('show', 'winter', '--csv', '-');
    expect(lines(csv)[2]).toMatch(/,0\.9725$/);
    await runCommand('show', 'winter', '--html', home('w.html'));
    expect(await readFile(home('w.html'), 'utf8')).toContain('<td>97.3 %</td>');
    await runCommand('show', 'winter', '--tensorboard', home('board'));
    const [file] = await readdir(home('board'));
    expect(await readFile(home('board', file!), 'latin1')).toContain('accuracy/validation');
  });

  it.each([
    ['squared', 'squared errors in variances of the training part'],
    ['quantile', 'quantile errors in standard deviations of the training part'],
  ])('says what %s errors of a forecast count', async (forecastError, words) => {
    await keepRun(winter(), {
      done: 2,
      rounds: 4,
      settings: { model: 'forecaster', forecastError },
    });
    expect((await runCommand('show', 'winter')).stdout).toContain(`losses are ${words}`);
  });

  it('writes one page that loads nothing and runs nothing, whatever the run says', async () => {
    await keepRun(winter(), {
      done: 3,
      rounds: 4,
      settings: { run: '<b>winter' },
      last: { sample },
    });
    const { exitCode, stdout } = await runCommand('show', '<b>winter', '--html', home('w.html'));
    expect([exitCode, stdout]).toEqual([0, '']);
    const page = await readFile(home('w.html'), 'utf8');
    expect(page).toMatch(/<polyline points="[\d., ]+"\/>/);
    expect(page).toContain('<h1>&lt;b&gt;winter</h1>');
    expect(page).toContain('O &lt;Romeo&gt; &quot;&amp; Juliet&quot;');
    expect(page).not.toMatch(/<script|src=|href=|url\(|@import|http/i);
    expect(page.match(/<tr>/g)).toHaveLength(4);
  });

  it('prints JSON, a row per round', async () => {
    await keepRun(winter(), {
      done: 2,
      rounds: 4,
      last: { sample: 'text', validationLoss: Number.NaN },
    });
    const shown = JSON.parse((await runCommand('show', 'winter', '--json')).stdout);
    expect(shown).toMatchObject({ name: 'winter', lossBefore: 4.5, sample: 'text' });
    expect(shown.history).toMatchObject([{ index: 0, validationLoss: 3 }, { index: 1 }]);
    expect(shown.history[1]).not.toHaveProperty('validationLoss');
  });

  it('names the runs there are when one is unknown', async () => {
    await keepRun(winter(), { done: 2, rounds: 4 });
    const { exitCode, stderr } = await runCommand('show', 'nope');
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/no run "nope" on this machine[\s\S]*winter/);
  });
});

describe('clean', () => {
  const summer = (...names: readonly string[]) => home('runs', 'summer', ...names);
  beforeEach(async () => {
    await keepRun(winter(), { done: 2, rounds: 4 });
    await keepRun(summer(), { done: 3, rounds: 3 });
  });

  it('lists finished runs and removes nothing without --yes', async () => {
    const { exitCode, stdout } = await runCommand('clean');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^summer +finished +[\d.]+ kB/);
    expect(stdout).toContain('would remove 1 run');
    expect(existsSync(summer('state.safetensors'))).toBe(true);
  });

  it('removes with --yes, and keeps every key', async () => {
    await writeFile(summer('votes.json'), '{}');
    await writeFile(summer('my-own.txt'), `  ${SECRET}\n`);
    expect((await runCommand('clean', '--yes')).stdout).toContain('removed 1 run');
    expect(await readdir(summer())).toEqual(['key', 'my-own.txt', 'votes.json']);
    expect(existsSync(winter('state.safetensors'))).toBe(true);
    expect((await runCommand('runs')).stdout).not.toContain('summer');
    expect((await runCommand('clean', '--yes')).stdout).toBe('nothing to remove\n');
  });

  it('keeps the keys of a demo too', async () => {
    await keepRun(home('demos', 'gpt', 'alice'), { done: 1, rounds: 1 });
    await runCommand('clean', 'demos/gpt', '--yes');
    expect(await readdir(home('demos', 'gpt'), { recursive: true })).toEqual([
      'alice',
      'alice/key',
    ]);
  });

  it('removes what is old, finished or not', async () => {
    const long = new Date(Date.now() - 8 * 86_400_000);
    for (const name of await readdir(winter())) await utimes(winter(name), long, long);
    expect((await runCommand('clean', '--older-than', '9')).stdout).toBe('nothing to remove\n');
    const { runs } = JSON.parse((await runCommand('clean', '--older-than', '7', '--json')).stdout);
    expect(runs.map(({ name }: { name: string }) => name)).toEqual(['winter']);
  });

  it('removes a stopped run that is named', async () => {
    await runCommand('clean', 'winter', '--yes');
    expect(await readdir(winter())).toEqual(['key']);
  });

  it('never removes a run that a process plays', async () => {
    const lock = await takeLock(summer());
    expect((await runCommand('clean', '--yes')).stdout).toBe('nothing to remove\n');
    const named = await runCommand('clean', 'summer', '--yes');
    expect(named).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('run/busy') });
    await lock.release();
    expect(existsSync(summer('state.safetensors'))).toBe(true);
  });

  it('removes nothing outside the data folder', async () => {
    await rename(summer(), home('elsewhere'));
    const byPath = await runCommand('clean', home('elsewhere'), '--yes');
    expect(byPath).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('run/elsewhere') });
    await symlink(home('elsewhere'), summer());
    const linked = await runCommand('clean', summer(), '--yes');
    expect(linked).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('run/elsewhere') });
    await runCommand('clean', '--older-than', '0', '--yes');
    expect(existsSync(home('elsewhere', 'state.safetensors'))).toBe(true);
    // a link inside a run goes, what it leads to stays
    await symlink(home('elsewhere'), winter('link'));
    await keepRun(winter(), { done: 4, rounds: 4 });
    await runCommand('clean', '--yes');
    expect(await readdir(winter())).toEqual(['key']);
    expect(existsSync(home('elsewhere', 'state.safetensors'))).toBe(true);
  });
});
