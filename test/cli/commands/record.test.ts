/** The folder of a whole run: written from relays, read when all of them are gone, and put together again from its chunks. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type BlossomServer, startBlossomServer } from '../../support/blossom-server.ts';
import { generateRun } from '../../support/certified-run.ts';
import { runCommand } from '../../support/command-line.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { publishRaw } from '../../support/publish-raw.ts';

const made = generateRun();
const place = temporaryFolder();
const inFolder = (name: string): string => join(place, name);
const folder = inFolder('run');

describe('nostrain archive --folder', () => {
  let relay: Relay;
  let printed: Awaited<ReturnType<typeof runCommand>>;
  let blossom: BlossomServer;
  beforeAll(async () => {
    vi.stubEnv('NOSTRAIN_HOME', inFolder('home'));
    relay = await createRelay();
    blossom = await startBlossomServer();
    await publishRaw(relay.url, made.events);
    const from = ['--run', made.run, '--relay', relay.url];
    printed = await runCommand(
      'archive',
      ...from,
      '--folder',
      folder,
      '--every',
      '3',
      ...['--chunk', '16384', '--to', blossom.url, '--sec-key', '01'.repeat(32)],
    );
    await relay.close();
  });
  const replay = (...more: readonly string[]) => runCommand('replay', '--events', folder, ...more);

  test('keeps events, every n-th state and the last, what a replay finds, and chunks of all of it', async () => {
    expect(printed.exitCode, printed.stderr).toBe(0);
    expect((await readdir(folder)).sort()).toEqual([
      'chunks',
      'record.json',
      'run.jsonl',
      'states',
    ]);
    expect((await readdir(`${folder}/states`)).sort()).toEqual(['3.state', '6.state', '7.state']);
    expect((await readdir(`${folder}/chunks`)).sort()).toEqual(['3', '6', '7', 'run']);
    expect(printed.stdout).toContain(`model ${made.state.modelRoot}; states after rounds 3, 6, 7`);
    const record = JSON.parse(await readFile(`${folder}/record.json`, 'utf8'));
    expect(record).toMatchObject({ run: made.run, rounds: 7, modelRoot: made.state.modelRoot });
  });

  test('is replayed when all relays are gone', async () => {
    const { exitCode, stdout } = await replay();
    expect(exitCode, stdout).toBe(0);
    expect(stdout).toContain('ok: 7 rounds, all recomputed in full');
    const why = ['--round', '1', '--worker', made.spec.founders[0]!];
    expect(await runCommand('explain', '--events', folder, ...why)).toMatchObject({ exitCode: 0 });
  });

  test('comes back from its chunks alone', async () => {
    const back = inFolder('back.jsonl');
    const unpacked = await runCommand(
      'checkpoint',
      'unpack',
      `${folder}/chunks/run`,
      '--out',
      back,
    );
    expect(unpacked.exitCode, unpacked.stderr).toBe(0);
    const { stdout } = await runCommand('replay', '--events', back);
    expect(stdout).toContain(made.state.modelRoot);
  });

  test('is replayed from a Blossom server by one digest, when relays and folder are gone', async () => {
    const digest = /chunks\/run: manifest (\w{64})/.exec(printed.stdout)![1]!;
    expect(blossom.blobs.has(digest)).toBe(true);
    const from = ['--events', digest, '--from', blossom.url];
    const first = await runCommand('replay', ...from);
    expect(first.exitCode, first.stderr).toBe(0);
    expect(first.stdout).toContain('ok: 7 rounds, all recomputed in full');
    expect(first.stdout).toContain(made.state.modelRoot);
    const nowhere = await runCommand('replay', '--events', 'ab'.repeat(32), '--from', blossom.url);
    expect(nowhere.stderr).toContain('no source has the manifest');
    const none = await runCommand('replay', '--run', made.run, '--from', blossom.url);
    expect(none.stderr).toContain('use --events FILE, --run naddr1…, or --run ID --relay URL');
  });

  test('where payloads are lost, goes on from its states', async () => {
    const [events, record] = [`${folder}/run.jsonl`, `${folder}/record.json`];
    const texts = await Promise.all([events, record].map((file) => readFile(file, 'utf8')));
    const lines = texts[0]!.split('\n');
    const isEarly = (line: string) => /"kind":7810/.test(line) && /\\"round\\":1,/.test(line);
    await writeFile(events, lines.filter((line) => !isEarly(line)).join('\n'));
    const { exitCode, stdout, stderr } = await replay();
    expect(stdout).toMatch(/round +2 +chain/);
    expect(stdout).toMatch(/round +3 +chain/);
    expect(stdout).toMatch(/round +4 +full/);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('run.jsonl is missing or does not match record.json');
    await writeFile(events, texts[0]!);
  });

  test.each([
    ['a state', 'states/6.state', 'states/6.state is missing or does not match record.json'],
    ['a root of the record', 'record.json', 'modelRoot is'],
  ])('%s that is changed is named', async (_, name, words) => {
    const file = `${folder}/${name}`;
    const before = await readFile(file);
    const { modelRoot } = made.state;
    const changed = name.endsWith('.json')
      ? Buffer.from(
          before
            .toString()
            .replace(
              `"modelRoot":"${modelRoot}","rounds"`,
              `"modelRoot":"${'0'.repeat(64)}","rounds"`,
            ),
        )
      : Buffer.from(before.map((byte, i) => (i === 9 ? byte ^ 1 : byte)));
    await writeFile(file, changed);
    const { exitCode, stderr } = await replay();
    expect(exitCode).toBe(1);
    expect(stderr).toContain(words);
    await writeFile(file, before);
  });

  test('a folder of anything else is refused, and so are no place or two', async () => {
    await mkdir(inFolder('other'));
    const other = await runCommand('replay', '--events', inFolder('other'));
    expect(other.stderr).toContain('is not a run folder');
    const both = await runCommand('archive', '--run', made.run, '--out', 'a', '--folder', 'b');
    expect(both.stderr).toContain('use --out FILE or --folder DIR');
    expect((await runCommand('archive', '--run', made.run)).stderr).toContain('flag/out');
  });

  afterAll(async () => {
    await blossom.close();
    await rm(place, { recursive: true, force: true });
  });
});
