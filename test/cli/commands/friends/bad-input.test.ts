/** What goes wrong before friends train: each says what is wrong in one sentence, and what to do next. */
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toHex } from 'nostrain/base';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { encodeInvitation } from '../../../../src/friends/line.ts';
import { buildLobby, lockOf } from '../../../../src/friends/lobby.ts';
import { runCommand } from '../../../support/command-line.ts';
import { publishRaw } from '../../../support/publish-raw.ts';
import { keyOf, secretOf, signerOf } from '../../../support/swarm.ts';

let relay: Relay;
let home: string;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'nostrain-friends-'));
  vi.stubEnv('NOSTRAIN_HOME', home);
});
afterEach(() => vi.unstubAllEnvs());

const secret = '0f'.repeat(16);
const lineTo = (url: string, name = 'winter', key = secret) =>
  encodeInvitation({ host: keyOf(0), name, relays: [url], secret: key });
const linear = ['--model', 'linear', '--headless'];

async function fails(...argv: readonly string[]): Promise<string> {
  const { exitCode, stderr, stdout } = await runCommand(...argv);
  expect(exitCode, stderr).toBeGreaterThan(0);
  expect(stdout).toBe('');
  return stderr;
}

it('a join line that was cut off', async () => {
  const stderr = await fails('join', lineTo(relay.url).slice(0, -9));
  expect(stderr).toMatch(/join\/line.*cut off or mistyped\n {2}try: copy the whole line/s);
});

it('a line whose lobby no relay has, because it is outdated', async () => {
  const stderr = await fails('join', lineTo(relay.url, 'nowhere'));
  expect(stderr).toMatch(/lobby\/unknown.*no such lobby\n {2}try: ask the host for a new line/s);
}, 30_000);

it('a line with the secret of an earlier lobby', async () => {
  const address = { host: keyOf(0), name: 'winter' };
  const lock = lockOf(secret, address);
  const lobby = { ...address, people: 2, lock, what: 'linear', names: new Map() };
  const event = signerOf(0).sign(buildLobby(lobby, Math.floor(Date.now() / 1000)));
  await publishRaw(relay.url, [event]);
  const stderr = await fails('join', lineTo(relay.url, 'winter', 'aa'.repeat(16)));
  expect(stderr).toMatch(/lobby\/secret.*does not open.*\n {2}try: copy the whole line/s);
});

it('a relay behind a firewall, or a host that is not running', async () => {
  const stderr = await fails('join', lineTo('ws://127.0.0.1:9'), '--timeout', '1');
  expect(stderr).toMatch(/lobby\/unreachable.*127\.0\.0\.1:9/);
  expect(stderr).toMatch(/try: .*same network.*firewall.*TCP port 9.*--relay/s);
}, 30_000);

it('private relays that an naddr names are dialed only with permission', async () => {
  const { naddrEncode } = await import('nostr-tools/nip19');
  const address = { kind: 37_814, pubkey: keyOf(0), identifier: 'winter' };
  const stderr = await fails('join', naddrEncode({ ...address, relays: [relay.url] }));
  expect(stderr).toContain('names only private relays');
});

it('a name that no run can have, and no number of people', async () => {
  expect(await fails('host', 'our winter', '--people', '2', ...linear)).toContain('flag/name');
  expect(await fails('host', 'winter', ...linear)).toMatch(/flag\/people.*--people 3/s);
  expect(await fails('host', 'winter', '--people', '1', ...linear)).toContain('from 2 to 64');
});

it('a name that is taken on this machine', async () => {
  const lobby = join(home, 'lobbies', 'spring');
  mkdirSync(lobby, { recursive: true });
  const kept = { host: keyOf(5), name: 'spring', relays: [relay.url], people: 2, typed: '{}' };
  writeFileSync(join(lobby, 'lobby.json'), JSON.stringify(kept));
  const stderr = await fails('host', 'spring', '--people', '2', ...linear);
  expect(stderr).toMatch(/lobby\/taken.*another key\n {2}try: .*choose another name/s);
});

it('a text that is too large for the relays', async () => {
  const text = join(home, 'large.txt');
  writeFileSync(text, Buffer.alloc(2 ** 24 + 1, 'a winter text. '));
  const argv = ['host', 'winter', '--people', '2', '--corpus', text, '--relay', relay.url];
  const stderr = await fails(...argv, '--headless');
  expect(stderr).toMatch(/lobby\/text.*16.* MB.*\n {2}try: .*https.*--mirror/s);
}, 60_000);

it('a full disk, before the lobby opens', async () => {
  const lobby = join(home, 'lobbies', 'winter');
  mkdirSync(lobby, { recursive: true });
  symlinkSync('/dev/full', join(lobby, 'lobby.json.tmp'));
  const stderr = await fails('host', 'winter', '--people', '2', '--relay', relay.url, ...linear);
  expect(stderr).toMatch(/run\/write.*no space left.*\n {2}try: free disk space/s);
});

it('a base that is no model', async () => {
  const argv = ['host', 'winter', '--people', '2', '--base', home, '--relay', relay.url];
  const stderr = await fails(...argv, '--headless');
  expect(stderr).toMatch(/model\/files.*has no config.json\n {2}try: name a folder with/s);
});

it('a text that is not that of the run', async () => {
  const [text, other, key] = ['text.txt', 'other.txt', 'key'].map((name) => join(home, name));
  writeFileSync(text!, 'a winter text. '.repeat(2000));
  writeFileSync(other!, 'a summer text. '.repeat(2000));
  writeFileSync(key!, toHex(secretOf(1)), { mode: 0o600 });
  const created = await runCommand(
    ...['run', 'create', '--name', 'winter', '--model', 'char-gpt', '--corpus', text!],
    ...['--founder', keyOf(1), '--relay', relay.url, '--key-file', key!, '--json'],
    ...['--output', join(home, 'run.json')],
  );
  expect(created.exitCode, created.stderr).toBe(0);
  const { run } = JSON.parse(created.stdout);
  const address = { host: keyOf(1), name: 'winter' };
  const lock = lockOf(secret, address);
  const lobby = { ...address, people: 2, lock, what: 'char-gpt', run, names: new Map() };
  const event = signerOf(1).sign(buildLobby(lobby, Math.floor(Date.now() / 1000)));
  await publishRaw(relay.url, [event]);
  const line = encodeInvitation({ ...address, relays: [relay.url], secret });
  const stderr = await fails('join', line, '--key-file', key!, '--corpus', other!, '--headless');
  expect(stderr).toMatch(/corpus\/other.*\n {2}try: /s);
}, 60_000);
