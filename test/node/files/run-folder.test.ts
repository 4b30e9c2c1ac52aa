import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { CheckpointError } from 'nostrain/base';
import { type CertifiedState, certifiedMembers, chainHeadOf } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import { loadModelState as readStateFile } from 'nostrain/python/node';
import { createLayout, decodeSafetensors, encodeSafetensors, stateDigest } from 'nostrain/tensor';
import {
  encodeState,
  genesis,
  noMembers,
  type RoundSummary,
  type WorkerState,
} from 'nostrain/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loadState, openRunFolder, takeKeyLock } from '../../../src/node/files/run-folder.ts';
import { fullName } from '../../../src/run/worker-names.ts';
import { generateRun } from '../../support/certified-run.ts';
import { itWith, permissionsMissing } from '../../support/needs.ts';

let home: string;
let dir: string;
let folders = 0;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'nostrain-run-folder-'));
});
beforeEach(() => {
  dir = join(home, String(folders++));
});
afterAll(() => rm(home, { recursive: true, force: true }));

const layout = createLayout([
  { name: 'a.bias', shape: [1] },
  { name: 'a.weight', shape: [2, 3] },
]);

const event: SignedEvent = {
  id: 'a'.repeat(64),
  pubkey: '1'.repeat(64),
  created_at: 1,
  kind: 7810,
  tags: [['s', 'r']],
  content: '"é😀…"',
  sig: '5'.repeat(128),
};

const round: RoundSummary = {
  index: 0,
  base: 'b'.repeat(64),
  digest: 'd'.repeat(64),
  accepted: ['1', '2'],
  refused: [{ reason: 'malformed' }, { reason: 'wrong-round', worker: '3' }],
  completionReason: 'timeout',
  trainingLoss: 0.1,
  validationLoss: 1e-300,
  sample: 'O Romeo\n"é😀',
  payloadBytes: 100,
  eventBytes: 200,
  residualShare: 0.25,
  secondsTraining: 1.5,
  secondsWaiting: 0.5,
  seconds: 2,
};

/** A state with every part there. */
function played(): WorkerState {
  const values = Float32Array.of(1, -0, 3.3, 1e-45, -5, 6, 7);
  return {
    ...genesis({ layout, values }, 2.5),
    round: 1,
    momentum: Float64Array.from({ length: 7 }, (_, i) => Math.sqrt(i)),
    moments: [values.map((x) => x / 3), values.map((x) => x * x), Float32Array.of(80)],
    residual: Float64Array.from({ length: 7 }, (_, i) => -i / 3),
    cohort: ['1', '2'],
    folded: { '2': 0 },
    rounds: [round],
    tokens: 12_345,
    sent: {
      event,
      payload: Uint8Array.of(0, 255, 7),
      roster: ['1', '2'],
      trainingLoss: 0.1,
      payloadBytes: 1,
      eventBytes: 2,
      secondsTraining: 3,
      residualShare: 0,
    },
  };
}

/** Where it stands, where it stood, and what it sent. */
function switched(): CertifiedState {
  const { state } = generateRun([{}, {}]);
  const sent = played().sent!;
  const signature = { createdAt: 1, expiration: 2, sig: 'a'.repeat(128) };
  const rows = [{ index: 1, unlisted: [3], ...signature }];
  const votes = { attempt: 0, view: 1, ctx: 'b'.repeat(64), rows };
  return {
    ...played(),
    head: chainHeadOf(state, votes, ['c'.repeat(64), state.run]),
    contributed: [
      { sent, finished: state.before!, isOut: true },
      { sent: { ...sent, payload: undefined }, finished: state.before!, isOut: false },
    ],
  };
}

const open = (at = dir) => openRunFolder(at, noMembers);

describe('the state', () => {
  it.each([
    ['of a new run', genesis({ layout, values: new Float32Array(7) }, 1)],
    ['of a new f64 run', genesis({ layout, values: new Float64Array(7) }, 1)],
    ['after a round', played()],
    [
      'with a loss that is not a number',
      {
        ...played(),
        rounds: [{ ...round, trainingLoss: Number.NaN, validationLoss: Number.NaN }],
      },
    ],
  ])('%s comes back exactly', async (_, state) => {
    const folder = await open();
    expect(await folder.store.load(layout)).toBeUndefined();
    await folder.store.save(state);
    const loaded = await folder.store.load(layout);
    expect(loaded).toEqual(state);
    expect(Object.is(loaded?.params.values[1], state.params.values[1])).toBe(true);
    expect(stateDigest(await readStateFile(dir))).toBe(stateDigest(state.params));
    await folder.close();
  });

  it('of an earlier version has the seconds of the rounds that it lists', async () => {
    const folder = await open();
    const { seconds: _, ...before } = { ...played(), rounds: [round, { ...round, index: 1 }] };
    await folder.store.save(before as unknown as WorkerState);
    const { seconds } = (await folder.store.load(layout))!;
    expect(seconds).toEqual({ training: 3, waiting: 1 });
    await folder.close();
  });

  it.each([
    [
      'whose last contribution may still be listed',
      { ...switched(), sent: undefined, pending: played().sent },
    ],
    ['that went over to another branch', switched()],
  ])('of a certified run %s comes back exactly', async (_, state) => {
    const folder = await openRunFolder(dir, certifiedMembers);
    await folder.store.save(state);
    expect(await folder.store.load(layout)).toEqual(state);
    await folder.close();
  });

  it('of a certified run without its chain head is refused', async () => {
    const folder = await openRunFolder(dir, certifiedMembers);
    await folder.store.save(played());
    await expect(folder.store.load(layout)).rejects.toThrow('its history is not whole');
    await folder.close();
  });

  it('has any number of moments in order', async () => {
    const moments = Array.from({ length: 12 }, (_, i) => Float32Array.of(i));
    const folder = await open();
    await folder.store.save({ ...played(), moments });
    expect((await folder.store.load(layout))?.moments).toEqual(moments);
    await folder.close();
  });

  it('of another model is refused', async () => {
    const folder = await open();
    await folder.store.save(played());
    const other = createLayout([{ name: 'a.bias', shape: [7] }]);
    await expect(folder.store.load(other)).rejects.toThrow('it holds another model');
    await folder.close();
  });

  it('cut short at any byte is refused as a checkpoint', async () => {
    const bytes = encodeState(played());
    const file = join(home, 'cut.safetensors');
    const sizes = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => 7 * i);
    for (const size of [...sizes, bytes.length - 1]) {
      await writeFile(file, bytes.subarray(0, size));
      const error = await loadState(file, layout, noMembers).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(CheckpointError);
      expect(error).toMatchObject({ code: 'run/state', hint: expect.stringContaining('folder') });
      expect((error as Error).message).toContain(file);
    }
  });

  it('with bytes changed is refused as a checkpoint, or is a whole state', async () => {
    const bytes = encodeState(played());
    const file = join(home, 'changed.safetensors');
    const change = fc.tuple(fc.nat(bytes.length - 1), fc.nat(255));
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
        const broken = bytes.slice();
        for (const [at, value] of changes) broken[at] = value;
        await writeFile(file, broken);
        const state = await loadState(file, layout, noMembers).catch((error: unknown) => {
          expect(error).toBeInstanceOf(CheckpointError);
        });
        if (state) expect(state.residual).toHaveLength(7);
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ['{}'],
    ['nonsense'],
    ['{"round":-1,"folded":{},"rounds":[],"lossBefore":1,"tokens":0}'],
    ['{"round":1,"folded":{},"rounds":[{"index":0}],"lossBefore":1,"tokens":0}'],
    ['{"round":1,"folded":{},"rounds":[],"lossBefore":1,"tokens":0,"sent":{}}'],
  ])('with the history %s is refused', async (worker) => {
    const decoded = decodeSafetensors(encodeState(played()));
    if (!decoded.ok) throw new Error(decoded.issue.message);
    const { tensors, metadata } = decoded.value;
    const broken = encodeSafetensors({ tensors, metadata: { ...metadata, worker } });
    await mkdir(dir);
    await writeFile(join(dir, 'state.safetensors'), broken);
    await expect(loadState(join(dir, 'state.safetensors'), layout, noMembers)).rejects.toThrow(
      'its history is not whole',
    );
  });

  it('keeps the one before when a new one cannot be written', async () => {
    const folder = await open();
    await folder.store.save(played());
    await mkdir(join(dir, 'state.safetensors.tmp'));
    await expect(folder.store.save({ ...played(), round: 2 })).rejects.toMatchObject({
      name: 'CheckpointError',
      code: 'run/write',
    });
    expect((await folder.store.load(layout))?.round).toBe(1);
    await folder.close();
  });
});

describe('the lock', () => {
  const lockOf = () => join(dir, 'lock');
  const dead = () => spawnSync(process.execPath, ['--version']).pid;

  it('keeps a live process alone', async () => {
    await mkdir(dir);
    await writeFile(lockOf(), `${process.ppid}\n`);
    await expect(open()).rejects.toThrow(`process ${process.ppid} already plays the worker`);
    await expect(open()).rejects.toMatchObject({ code: 'run/busy', hint: expect.any(String) });
    expect(await readFile(lockOf(), 'utf8')).toBe(`${process.ppid}\n`);
  });

  it('keeps this process alone as well', async () => {
    const folder = await open();
    await expect(open()).rejects.toMatchObject({ code: 'run/busy' });
    await expect(open(`${dir}/../${folders - 1}/`)).rejects.toMatchObject({ code: 'run/busy' });
    await folder.close();
    await (await open()).close();
    expect(await readdir(dir)).toEqual([]);
  });

  it.each([
    ['a dead process', () => `${dead()}\n`],
    ['a process with our id', () => `${process.pid}\n`],
    ['nobody', () => ''],
    ['nonsense', () => 'x'],
  ])('is taken over from %s', async (_, text) => {
    await mkdir(dir);
    await writeFile(lockOf(), text());
    const folder = await open();
    expect(await readFile(lockOf(), 'utf8')).toMatch(new RegExp(`^${process.pid} `));
    await folder.close();
    expect(await readdir(dir)).toEqual([]);
  });

  it('of someone else is not removed', async () => {
    const folder = await open();
    await writeFile(lockOf(), 'another\n');
    await folder.close();
    expect(await readFile(lockOf(), 'utf8')).toBe('another\n');
  });

  it('that cannot be written is a wrong folder', async () => {
    await mkdir(lockOf(), { recursive: true });
    await expect(open()).rejects.toMatchObject({ name: 'ConfigError', code: 'run/folder' });
    await writeFile(join(home, 'file'), '');
    await expect(open(join(home, 'file', 'in'))).rejects.toMatchObject({ code: 'run/folder' });
  });
});

describe('the log', () => {
  it('gets a line per event', async () => {
    const folder = await open();
    folder.log({ type: 'notice', message: 'one' });
    folder.log({ type: 'notice', message: 'two\nlines' });
    const lines = (await readFile(join(dir, 'log.ndjson'), 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).message)).toEqual(['one', 'two\nlines']);
    await folder.close();
  });

  it('that is full takes the place of the one before: two logs at most', async () => {
    const folder = await open();
    const mebibyte = 'x'.repeat(2 ** 20);
    for (let i = 0; i < 26; i++) folder.log({ type: 'notice', message: `${i} ${mebibyte}` });
    await folder.close();
    const again = await open();
    again.log({ type: 'notice', message: 'after a restart' });
    const logs = (await readdir(dir)).filter((name) => name.startsWith('log')).sort();
    expect(logs).toEqual(['log.1.ndjson', 'log.ndjson']);
    const linesIn = async (name: string) =>
      (await readFile(join(dir, name), 'utf8')).trimEnd().split('\n');
    const [older, newer] = await Promise.all(logs.map(linesIn));
    expect(older).toHaveLength(8);
    expect(JSON.parse(newer!.at(-1)!).message).toBe('after a restart');
    expect(Number.parseInt(JSON.parse(newer![0]!).message, 10)).toBe(24);
    await again.close();
  });

  it('that cannot be written says so', async () => {
    const folder = await open();
    await mkdir(join(dir, 'log.ndjson'));
    expect(() => folder.log({ type: 'notice', message: '' })).toThrow(CheckpointError);
    await folder.close();
  });
});

itWith(permissionsMissing)('a run folder is for its owner only', async () => {
  const folder = await open();
  await folder.store.save(played());
  expect((await stat(dir)).mode & 0o777).toBe(0o700);
  expect((await stat(join(dir, 'state.safetensors'))).mode & 0o777).toBe(0o600);
  await folder.close();
});

describe('one key in one run, from two folders of this machine', () => {
  const key = 'ab'.repeat(32);

  it('is refused to the second process, and the hint does not advise what throws the key out', async () => {
    const first = await takeKeyLock(dir, 'run', key);
    const second = takeKeyLock(dir, 'run', key);
    await expect(second).rejects.toMatchObject({
      code: 'run/busy',
      message: `process ${process.pid} already plays in this run with the key ${fullName(key)}`,
      hint: expect.stringContaining('--key-file'),
    });
    await (await takeKeyLock(dir, 'another run', key)).release();
    await (await takeKeyLock(dir, 'run', 'cd'.repeat(32))).release();
    await first.release();
    await (await takeKeyLock(dir, 'run', key)).release();
  });

  it('is taken over from a dead process, not from a live one', async () => {
    await (await takeKeyLock(dir, 'run', key)).release();
    const locks = join(dir, 'locks');
    const first = await takeKeyLock(dir, 'run', key);
    const [name] = await readdir(locks);
    await first.release();
    await writeFile(join(locks, name!), `${process.ppid}\n`);
    await expect(takeKeyLock(dir, 'run', key)).rejects.toMatchObject({ code: 'run/busy' });
    await writeFile(join(locks, name!), `${spawnSync(process.execPath, ['--version']).pid}\n`);
    await (await takeKeyLock(dir, 'run', key)).release();
    expect(await readdir(locks)).toEqual([]);
  });
});
