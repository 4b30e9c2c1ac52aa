import {
  appendFile,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { takeLock } from 'nostrain/node/parts';
import { canonicalSpec, runIdOf } from 'nostrain/run';
import { expect, it } from 'vitest';
import {
  findLocalRun,
  listLocalRuns,
  runFolderOf,
  withHistory,
} from '../../../src/node/files/local-runs.ts';
import { generateRun } from '../../support/certified-run.ts';
import { keepRun } from '../../support/local-runs.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const home = temporaryFolder();

it('lists no runs where there is no data folder', async () => {
  expect(await listLocalRuns(home('none'))).toEqual([]);
});

it('says of each run what it is, how far it is and what it takes', async () => {
  await keepRun(home('runs', 'winter'), { done: 2, rounds: 4 });
  const changedAt = new Date('2026-01-02T03:04:05Z');
  for (const name of await readdir(home('runs', 'winter'))) {
    await utimes(home('runs', 'winter', name), changedAt, changedAt);
  }
  await keepRun(home('runs', 'autumn'), {
    done: 3,
    rounds: 3,
    settings: { profile: 'nostrain/0' },
  });
  await keepRun(home('demos', 'gpt', 'alice'), { done: 1, rounds: 1 });
  await keepRun(home('demos', 'gpt', 'bob'), { done: 1, rounds: 1 });
  const found = await listLocalRuns(home());
  expect(found.map(({ name, kind, state }) => [name, kind, state])).toEqual([
    ['autumn', 'python', 'finished'],
    ['demos/gpt', 'demo', 'finished'],
    ['winter', 'averaging', 'stopped'],
  ]);
  const winter = found[2]!;
  expect(winter).toMatchObject({ parameters: 7, rounds: 4, model: 'linear', lossBefore: 4.5 });
  expect(winter.history.map(({ validationLoss }) => validationLoss)).toEqual([3, 2.5]);
  expect(winter.changedAtMs).toBe(changedAt.getTime());
  expect(winter.bytes).toBeGreaterThan(1000);
});

it('has all rounds of a long run from its state and its log, but those of a branch that it left', async () => {
  const dir = home('runs', 'winter');
  await keepRun(dir, { done: 100, rounds: 100 });
  const found = await findLocalRun('winter', home());
  expect([found.played, found.history[0]!.index, found.history.length]).toEqual([100, 68, 32]);
  const indexes = async () => (await withHistory(found)).history.map(({ index }) => index);
  const all = Array.from({ length: 100 }, (_, i) => i);
  expect(await indexes()).toEqual(all);
  const losses = (await withHistory(found)).history.map(({ trainingLoss }) => trainingLoss);
  expect(losses.slice(0, 3)).toEqual([4, 3.5, 3]);
  const log = home('runs', 'winter', 'log.ndjson');
  const lines = (await readFile(log, 'utf8')).trimEnd().split('\n');
  await writeFile(home('runs', 'winter', 'log.1.ndjson'), `${lines.slice(0, 40).join('\n')}\n`);
  await writeFile(log, `${lines.slice(40).join('\n')}\n`);
  expect(await indexes()).toEqual(all);
  const others =
    '{"type":"notice","message":"\\"type\\":\\"round\\""}\n{"type":"round","index":3}\n';
  await appendFile(log, `${others}{"type":"switched","round":70,"fork":60}\n{"type":"round","in`);
  expect(await indexes()).toEqual(all.filter((index) => index < 60 || index >= 68));
  await Promise.all([rm(log), rm(home('runs', 'winter', 'log.1.ndjson'))]);
  expect(await indexes()).toEqual(all.slice(68));
});

it('knows which runs a process plays', async () => {
  await keepRun(home('runs', 'winter'), { done: 2, rounds: 2 });
  const lock = await takeLock(home('runs', 'winter'));
  expect((await findLocalRun('winter', home())).state).toBe('running');
  await lock.release();
  // of a process that is gone
  await writeFile(home('runs', 'winter', 'lock'), '999999999 x\n');
  expect((await findLocalRun('winter', home())).state).toBe('finished');
});

it('takes a certified run by its name, its folder or the beginning of its id', async () => {
  const { spec } = await generateRun();
  const run = runIdOf(spec);
  await keepRun(home('runs', run.slice(0, 16)), { done: 1, rounds: 9, settings: { run } });
  await writeFile(home('runs', run.slice(0, 16), 'run.json'), canonicalSpec(spec));
  for (const word of [spec.name, run, run.slice(0, 16), run.slice(0, 8)]) {
    expect(await findLocalRun(word, home())).toMatchObject({
      name: spec.name,
      kind: 'certified',
      run,
    });
  }
});

it('finds a run elsewhere by its folder, and leaves paths as they are', async () => {
  await keepRun(home('runs', 'winter'), { done: 2, rounds: 2 });
  await rename(home('runs', 'winter'), home('other'));
  expect(await findLocalRun(home('other'), home())).toMatchObject({ name: 'winter' });
  expect(await runFolderOf(home('other'), home())).toBe(home('other'));
  expect(await runFolderOf('missing/state.npz', home())).toBe('missing/state.npz');
  await writeFile(home('winter'), 'a state');
  expect(await runFolderOf(home('winter'), home())).toBe(home('winter'));
});

it('tells the workers of one run on this machine apart', async () => {
  await keepRun(home('runs', 'winter'), { done: 1, rounds: 2 });
  await keepRun(home('runs', 'winter-2-of-3'), {
    ...{ done: 1, rounds: 2, settings: { run: 'winter' } },
  });
  expect((await listLocalRuns(home())).map(({ word }) => word)).toEqual([
    'winter',
    'winter-2-of-3',
  ]);
  expect((await findLocalRun('winter', home())).dir).toBe(home('runs', 'winter'));
});

it('says which runs there are where a name is unknown, and asks where two are meant', async () => {
  await keepRun(home('runs', 'winter'), { done: 2, rounds: 2 });
  await expect(findLocalRun('summer', home())).rejects.toMatchObject({
    code: 'run/unknown',
    hint: expect.stringContaining('winter'),
  });
  await expect(runFolderOf('summer', home())).rejects.toMatchObject({ code: 'run/unknown' });
  await keepRun(home('runs', 'x'), { done: 1, rounds: 2, settings: { run: 'winter' } });
  expect((await listLocalRuns(home())).map(({ word }) => word)).toEqual(['winter', 'x']);
  expect((await findLocalRun('x', home())).rounds).toBe(2);
  await keepRun(home('runs', 'y'), { done: 1, rounds: 2, settings: { run: 'spring' } });
  await keepRun(home('runs', 'z'), { done: 1, rounds: 2, settings: { run: 'spring' } });
  await expect(findLocalRun('spring', home())).rejects.toMatchObject({ code: 'run/ambiguous' });
});

it('leaves out what is no run: links, folders with a key alone, broken settings', async () => {
  await mkdir(home('runs', 'left'), { recursive: true });
  await writeFile(home('runs', 'left', 'key'), 'nsec');
  await mkdir(home('elsewhere'));
  await keepRun(home('elsewhere', 'w'), { done: 1, rounds: 1 });
  await symlink(home('elsewhere', 'w'), home('runs', 'linked'));
  await mkdir(home('runs', 'broken'));
  await writeFile(home('runs', 'broken', 'settings.json'), '{"run":');
  await writeFile(home('runs', 'broken', 'state.safetensors'), 'x');
  const found = await listLocalRuns(home());
  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({ name: 'broken', state: 'stopped', history: [] });
});
