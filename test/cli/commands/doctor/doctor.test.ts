import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import {
  checkFolder,
  checkNode,
  checkRelays,
  formatChecks,
  wordDevice,
  wordEngine,
} from '../../../../src/cli/commands/doctor/doctor.ts';
import { runCommand } from '../../../support/command-line.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const stop of stops.splice(0)) await stop();
});

async function startRelay(): Promise<string> {
  const relay = await createRelay({ name: 'mine', maxEventBytes: 65_536 });
  stops.push(relay.close);
  return relay.url;
}

/** A relay that says this of itself, with its clock so many seconds off. */
async function pretend(info: unknown, aheadSeconds = 0): Promise<string> {
  const server = createServer((_, response) => {
    const date = new Date(Date.now() + 1000 * aheadSeconds).toUTCString();
    response.setHeader('Date', date).end(JSON.stringify(info));
  });
  const sockets = new WebSocketServer({ server });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stops.push(() => {
    sockets.close();
    server.close();
    server.closeAllConnections();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const NOWHERE = 'ws://127.0.0.1:9';

describe('doctor', () => {
  it('tries this machine and a relay', { timeout: 120_000 }, async () => {
    vi.stubEnv('NOSTRAIN_HOME', file('home'));
    const url = await startRelay();
    const { exitCode, stdout, stderr } = await runCommand('doctor', '--relay', url, '--json');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const { ok, checks } = JSON.parse(stdout);
    expect(ok).toBe(true);
    const names = checks.map(({ name }: { name: string }) => name);
    expect(names).toEqual([
      'node',
      'onnxruntime-node',
      'device cpu',
      'device cuda',
      'device webgpu',
      'cores',
      'memory',
      'data folder',
      `relay ${url}`,
      'clock',
    ]);
    expect(checks[2]).toMatchObject({ level: 'ok', words: expect.stringMatching(/^works: two/) });
    for (const { level, words } of checks.slice(3, 5)) {
      expect(words.endsWith('(not benchmarked)')).toBe(level === 'ok');
    }
    expect(await readdir(file())).toEqual([]);
  });

  it('names the command that removes builds for other platforms', () => {
    expect(wordEngine('1.30.0', { bytes: 0 }).level).toBe('ok');
    expect(formatChecks([wordEngine('1.30.0', { bytes: 243_000_000 })])).toBe(
      'note    onnxruntime-node  1.30.0, with 243.00 MB of builds for other platforms\n' +
        '                          try: `nostrain clean --engine --yes` removes them\n',
    );
  });

  it('exits 1 and names what is broken', { timeout: 120_000 }, async () => {
    const { exitCode, stdout, stderr } = await runCommand('doctor', '--relay', NOWHERE);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^ok {6}node /);
    expect(stdout).toMatch(
      /^BROKEN {2}relay ws:\/\/127\.0\.0\.1:9 {2}cannot be reached: .*REFUSED/m,
    );
    expect(stderr).toContain(`training will not work here: relay ${NOWHERE}`);
  });

  it('exits 1 for a dead relay among others, with one document on stdout and one line of ours on stderr', {
    timeout: 120_000,
  }, async () => {
    const args = ['--relay', await startRelay(), '--relay', NOWHERE, '--json'];
    const { exitCode, stdout, stderr } = await runCommand('doctor', ...args);
    expect(exitCode).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ ok: false });
    expect(stderr).toBe(
      `error (doctor/broken): training will work only over the other relays: relay ${NOWHERE}\n`,
    );
  });

  it('refuses what is no relay address', async () => {
    const { exitCode, stdout, stderr } = await runCommand('doctor', '--relay', 'http://x');
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toContain('not a relay address: "http://x"');
  });
});

describe('relays', () => {
  it('tell their name and limits', async () => {
    const url = await startRelay();
    const [relay, clock] = await checkRelays([url, url]);
    expect(relay).toMatchObject({ name: `relay ${url}`, level: 'ok' });
    expect(relay?.words).toMatch(
      /^reached in \d+ ms; mine; nostrain-relay; messages up to 66 kB; content up to 65 kB$/,
    );
    expect(clock).toEqual({ name: 'clock', level: 'ok', words: 'agrees with the relays' });
  });

  it('that cannot be reached are broken, those that ask too much only where no other will do', async () => {
    const levels = async (...urls: string[]) =>
      (await checkRelays(urls)).slice(0, urls.length).map(({ level }) => level);
    expect(await levels(NOWHERE)).toEqual(['broken']);
    expect(await levels(NOWHERE, await startRelay())).toEqual(['broken', 'ok']);
    const paid = await pretend({ limitation: { payment_required: true } });
    expect(await levels(paid, await startRelay())).toEqual(['note', 'ok']);
    expect(await levels()).toEqual([]);
  });

  it.each([
    [{ payment_required: true }, 'requires payment'],
    [{ min_pow_difficulty: 40 }, 'requires proof of work of 40 bits'],
  ])('that say %j cannot be used', async (limitation, words) => {
    const [relay] = await checkRelays([await pretend({ limitation })]);
    expect(relay).toMatchObject({ level: 'broken', words: expect.stringContaining(words) });
  });

  it('need not describe themselves, and cannot write to the terminal', async () => {
    const [silent] = await checkRelays([await pretend(7)]);
    expect(silent).toMatchObject({ level: 'ok', words: expect.stringContaining('(NIP-11)') });
    const [loud] = await checkRelays([await pretend({ name: 'a\u001b[2Jb\nc' })]);
    expect(loud?.words).toMatch(/; a·\[2Jb c$/);
  });

  it.each([
    [2, 'ok', 'agrees with the relays'],
    [-30, 'note', /^(29|30|31) s ahead of the relays$/],
    [600, 'broken', /^(599|600|601) s behind the relays$/],
  ])('%d s ahead of us', async (ahead, level, words) => {
    const checks = await checkRelays([await pretend({}, ahead)]);
    expect(checks.at(-1)).toMatchObject({
      name: 'clock',
      level,
      words: expect.stringMatching(words),
    });
  });

  it('without a clock leave ours unjudged', async () => {
    const checks = await checkRelays([NOWHERE]);
    expect(checks.at(-1)).toMatchObject({ name: 'clock', level: 'absent' });
  });
});

describe('the machine', () => {
  it.each([
    ['20.19.0', 'ok'],
    ['20.18.3', 'broken'],
    ['18.20.0', 'broken'],
    ['24.1.0', 'ok'],
  ])('Node %s is %s', (version, level) => {
    expect(checkNode(version).level).toBe(level);
  });

  it('needs its CPU, and no other device', () => {
    const message = (device: string) => `${device} does not work here: x was false. No  driver\n`;
    const level = (device: 'cpu' | 'cuda', works: boolean) =>
      wordDevice({ device, works, message: message(device), halves: [] }).level;
    expect([level('cpu', true), level('cpu', false)]).toEqual(['ok', 'broken']);
    expect([level('cuda', true), level('cuda', false)]).toEqual(['ok', 'absent']);
    expect(
      wordDevice({ device: 'cuda', works: false, message: message('cuda'), halves: [] }).words,
    ).toBe('not available: No driver');
  });

  it('needs a data folder that can be written', async () => {
    await mkdir(file('home'));
    expect(await checkFolder(file('home'))).toMatchObject({ level: 'ok' });
    expect(await readdir(file('home'))).toEqual([]);
    expect(await checkFolder(file('new', 'home'))).toMatchObject({ level: 'ok' });
    await writeFile(file('taken'), '');
    expect(await checkFolder(file('taken'))).toMatchObject({
      level: 'broken',
      hint: 'set NOSTRAIN_HOME to a writable folder',
    });
    expect((await checkFolder(file('taken', 'home'))).level).toBe('broken');
  });
});

it('checks are told in columns', () => {
  const checks = [
    { name: 'node', level: 'ok', words: '20' },
    { name: 'device cpu', level: 'broken', words: 'no', hint: 'this' },
  ] as const;
  expect(formatChecks(checks)).toBe(
    ['ok      node        20', 'BROKEN  device cpu  no', '                    try: this', ''].join(
      '\n',
    ),
  );
});
