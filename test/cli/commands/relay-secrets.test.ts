/** What a relay's address may hold and nobody else may see: user, password, token. And addresses that strangers chose. */
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { decodeRunAddress, encodeRunAddress } from 'nostrain/certified/parts';
import { createRelay } from 'nostrain/relay';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { formatChecks } from '../../../src/cli/commands/doctor/doctor.ts';
import { withoutSecretArguments } from '../../../src/cli/shared/run-worker.ts';
import { runCommand } from '../../support/command-line.ts';
import { signerOf } from '../../support/signers.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const file = temporaryFolder();
const KEY = ['--sec-key', '01'.repeat(32)];
const SECRET = 'hunter2';
const closing: (() => unknown)[] = [];
beforeEach(() => vi.stubEnv('NOSTRAIN_HOME', file('home')));
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const close of closing.splice(0)) await close();
});

/** Our relay by an address with secrets in it, which it takes no notice of. */
async function secretRelay(): Promise<string> {
  const relay = await createRelay();
  closing.push(relay.close);
  return `${relay.url.replace('ws://', `ws://user:${SECRET}@`)}/?token=${SECRET}`;
}

/** Nobody listens there. */
const NOBODY = `ws://user:${SECRET}@127.0.0.1:1/?token=${SECRET}`;

/** Everything in files under a folder. */
async function textsIn(dir: string): Promise<string> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const texts = files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'latin1'));
  return (await Promise.all(texts)).join('\n');
}

describe('user, password and token of a relay', () => {
  it.each([
    [['doctor', '--json']],
    [['plan', '--model', 'linear']],
    [['plan', '--model', 'linear', '--json']],
    [['relays', 'check', '--seconds', '3']],
    [['run', 'list']],
    [['collect-events', '--run', 'r', '--round', '0', '--idle-timeout', '1']],
    [['discover-workers', '--run', 'r', '--idle-timeout', '1', '--json']],
  ])('%j says nothing of them', { timeout: 300_000 }, async (words) => {
    const urls = [await secretRelay(), NOBODY];
    // trying the machine takes seconds: `doctor` looks at both relays in one call, and its lines are made of the same checks
    for (const asked of words[0] === 'doctor' ? [urls] : urls.map((url) => [url])) {
      const isCheck = words[1] === 'check';
      const args = isCheck ? asked : asked.flatMap((url) => ['--relay', url]);
      const { stdout, stderr } = await runCommand(...words, ...args);
      const printed = words[0] === 'doctor' ? formatChecks(JSON.parse(stdout).checks) : '';
      expect(printed + stdout + stderr).not.toContain(SECRET);
      expect(stdout + stderr).not.toContain('internal error');
    }
  });

  it('are in no address of a run, no heartbeat, no log and no saved settings', async () => {
    const url = await secretRelay();
    const made = await runCommand(
      ...[
        'run',
        'create',
        '--relay',
        url,
        '--model',
        'linear',
        '--rounds',
        '2',
        '--inner-steps',
        '2',
      ],
      ...['-o', file('secret.run.json'), '--json', ...KEY],
    );
    expect(made.exitCode, made.stderr).toBe(0);
    const address = decodeRunAddress(JSON.parse(made.stdout).naddr);
    expect(address.ok && address.value.relays).toEqual([url.replace(/user.*@|\?.*/g, '')]);
    const dir = file('worker');
    const joined = await runCommand(
      ...['run', 'join', file('secret.run.json'), '--relay', url, '--advertise-relay', url],
      ...['--dir', dir, '--report', 'ndjson', ...KEY],
    );
    expect(joined.exitCode, joined.stderr).toBe(0);
    const said = [made, joined].map(({ stdout, stderr }) => stdout + stderr).join('');
    expect(said + (await textsIn(dir))).not.toContain(SECRET);
  });

  it('are not in the line that says how to go on', () => {
    const typed = [
      ...[
        'run',
        'join',
        'x.run.json',
        '--relay',
        `wss://a:${SECRET}@relay.example.com/?t=${SECRET}`,
      ],
      ...[
        `--relay=wss://b.test/?t=${SECRET}`,
        '--sec-key',
        SECRET,
        `--sec-key=${SECRET}`,
        '--rounds=3',
      ],
    ];
    expect(withoutSecretArguments(typed).join(' ')).toBe(
      'run join x.run.json --relay wss://relay.example.com/ --relay=wss://b.test/ --sec-key … --sec-key=… --rounds=3',
    );
  });
});

describe('an address that names relays of a private network', () => {
  const author = signerOf(1).publicKey;
  const addressOf = (...relays: readonly string[]) =>
    encodeRunAddress({ run: 'ab'.repeat(32), author, relays });

  it.each([
    [['run', 'join']],
    [['run', 'inspect']],
    [['run', 'leave']],
    [['run-training', '--spec']],
    [['witness', 'who', '--spec']],
    [['witness', 'inspect', '--spec']],
  ])('%j dials none of them, and says what to do', async (words) => {
    let knocks = 0;
    const server = createServer().on('connection', () => void knocks++);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing.push(() => server.close());
    const { port } = server.address() as AddressInfo;
    const address = addressOf(`ws://127.0.0.1:${port}/admin`, `ws://localhost:${port}`);
    const key = words[0] === 'witness' || words[1] === 'inspect' ? [] : KEY;
    const told = await runCommand(...words, address, ...key);
    expect(told.exitCode).toBe(1);
    expect(told.stderr).toContain('error (relay/private-hint)');
    expect(told.stderr).toContain('--relay URL');
    expect(told.stderr).toContain('--allow-private-relays');
    expect(knocks).toBe(0);
  });

  it('is asked of them where that is allowed, or the relay is named', async () => {
    const relay = await createRelay();
    closing.push(relay.close);
    const address = addressOf(relay.url);
    const allowed = await runCommand('run', 'inspect', address, '--allow-private-relays');
    expect(allowed.stderr).toContain('error (run/not-found)');
    const named = await runCommand('run', 'inspect', address, '--relay', relay.url);
    expect(named.stderr).toContain('error (run/not-found)');
  });
});
