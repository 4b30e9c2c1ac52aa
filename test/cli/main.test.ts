/** The command line in this process: mistakes are answered with what was meant, and what each exits with. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { NostrainError } from 'nostrain/base';
import { parseSecretKey, publicKeyOf } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { wordError } from '../../src/cli/main.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const file = temporaryFolder();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

const THREE = `${'0'.repeat(63)}3`;

describe('a slip of the hand', () => {
  it.each([
    [['run-trainin'], "unknown command 'run-trainin'", 'Did you mean run-training?'],
    [['keygne'], "unknown command 'keygne'", 'Did you mean keygen?'],
    [['relay', '--prot', '1'], "unknown option '--prot'", 'Did you mean --port?'],
    [['run-training', '--round', '1'], "unknown option '--round'", 'Did you mean --rounds?'],
    [['hash-state'], "missing required argument 'state'", 'add --help'],
    [['init-state'], "required option '--features <n>' not specified", 'add --help'],
    [['derive-pubkey', THREE, 'more'], 'too many arguments', 'add --help'],
    [['relay', '--port'], "option '--port <n>' argument missing", 'add --help'],
    [['relay', '--port', 'x'], '--port is "x"', 'it must be a whole number from 0 to 65535'],
    [['relay', '--port', '70000'], '--port is "70000"', 'from 0 to 65535'],
    [['run-training', '--model', 'gtp'], '--model is "gtp"', 'one of char-gpt, gpt, linear, mlp'],
    [['run-training', '--batch-size', 'two'], '--batch-size is "two"', 'a whole number'],
    [['run-training', '--model', 'linear'], 'run is not set', 'give it with --run <name>'],
    [['run-training'], 'nothing to train', '--model NAME'],
    [
      ['run-training', '--model', 'char-gpt', '--run', 'r', '--relay', 'ws://127.0.0.1:1'],
      'nothing says how many workers train in this run',
      'add --sync strict:N for N workers',
    ],
    [
      [
        ...['run-training', '--model', 'char-gpt', '--run', 'r', '--relay', 'ws://127.0.0.1:1'],
        ...['--sync', 'async'],
      ],
      'so they cannot be assigned parts of the model',
      '--set owners=0',
    ],
  ])('%j exits 2 and says what was meant', async (argv, message, help) => {
    const printed = await runCommand(...argv);
    expect(printed).toMatchObject({ exitCode: 2, stdout: '' });
    expect(printed.stderr).toContain(message);
    expect(printed.stderr).toContain(help);
    expect(printed.stderr).not.toMatch(/^ {4}at /m);
  });

  it('is no failure where help was asked for', async () => {
    for (const argv of [['--help'], ['help', 'relay'], ['train-local', '-h']]) {
      const printed = await runCommand(...argv);
      expect(printed).toMatchObject({ exitCode: 0, stderr: '' });
      expect(printed.stdout).toContain('Usage: nostrain');
    }
  });
});

describe('whoami', () => {
  it('prints the npub of a key and where it is, and creates the one of the data folder', async () => {
    vi.stubEnv('NOSTRAIN_HOME', file('home'));
    const made = await runCommand('whoami');
    expect(made.stdout).toMatch(/^npub1[a-z0-9]{58}\n$/);
    expect(made.stderr).toMatch(/created a new key in (\S+): .*\nthe secret key is in \1\n$/s);
    expect(await runCommand('whoami')).toMatchObject({ stdout: made.stdout });
    const { stdout } = await runCommand('keygen', '-o', file('key'));
    const other = await runCommand('whoami', '--key-file', file('key'));
    expect(other).toMatchObject({ stdout, stderr: `the secret key is in ${file('key')}\n` });
    vi.unstubAllEnvs();
  });

  it('knows the key of a run', async () => {
    const { stdout } = await runCommand('keygen', '-o', file('mine', 'key'));
    expect((await runCommand('whoami', file('mine'))).stdout).toBe(stdout);
  });
});

describe('keygen', () => {
  it('writes a key for its owner only, and never over another', async () => {
    const made = await runCommand('keygen', '-o', file('key'));
    expect(made.exitCode).toBe(0);
    const secret = parseSecretKey(await readFile(file('key'), 'utf8'), 'test');
    expect(made.stdout).toBe(`${toNpub(publicKeyOf(secret))}\n`);
    expect(made.stderr).not.toContain('nsec');
    if (process.platform !== 'win32') expect((await stat(file('key'))).mode & 0o777).toBe(0o600);

    const again = await runCommand('keygen', '-o', file('key'));
    expect(again).toMatchObject({ exitCode: 1, stdout: '' });
    expect(again.stderr).toContain('exists and was not overwritten\n  try: name a new file');
    expect(parseSecretKey(await readFile(file('key'), 'utf8'), 'test')).toEqual(secret);
  });

  it('prints the secret alone on stdout', async () => {
    const { stdout, stderr } = await runCommand('keygen');
    expect(stdout).toMatch(/^nsec1[a-z0-9]{58}\n$/);
    expect(stderr).toMatch(/^public: npub1[a-z0-9]{58}\n$/);
    const derived = await runCommand('derive-pubkey', stdout.trim());
    expect(derived.stdout).toMatch(/^[0-9a-f]{64}\n$/);
  });

  it('is what a wrong key is answered with', async () => {
    const { exitCode, stderr } = await runCommand('derive-pubkey', 'nsec1wrong');
    expect(exitCode).toBe(1);
    expect(stderr).toBe(
      'error (key/invalid): SEC_KEY is not a secret key\n' +
        '  try: a key is 64 hex digits or nsec1…; create one with `nostrain keygen`\n',
    );
  });
});

describe('relay', () => {
  it('says that the port is taken', async () => {
    const other = await createRelay();
    stops.push(other.close);
    const printed = await runCommand('relay', '--port', String(other.port));
    expect(printed).toMatchObject({ exitCode: 1, stdout: '' });
    expect(printed.stderr).toContain(
      `cannot listen on 127.0.0.1:${other.port}: another program already listens there`,
    );
    expect(printed.stderr).toContain('try: use another --port (0 for any free port)');
  });

  it('says that there is no such address', async () => {
    const printed = await runCommand('relay', '--host', '192.0.2.1', '--port', '0');
    expect(printed).toMatchObject({ exitCode: 1, stdout: '' });
    expect(printed.stderr).toContain('error (relay/listen): cannot listen on 192.0.2.1:0');
  });
});

describe('run-training', () => {
  const start = (...flags: string[]) =>
    runCommand('run-training', '--run', 'r', '--dir', file('worker'), ...flags);

  it('waits for a relay, says which it cannot reach, and leaves a folder to go on with', async () => {
    const linear = ['--model', 'linear', '--relay', 'ws://127.0.0.1:9'];
    const soon = ['--sync', 'strict:1', '--set', 'joinTimeout=0.1'];
    const printed = await start(...linear, ...soon);
    expect(printed.exitCode).toBe(1);
    expect(printed.stdout).toMatch(/no relay can be reached: .*; retrying: check the addresses/);
    expect(printed.stderr).toContain('error (relay/none-reachable): no relay can be reached');
    expect(printed.stderr).toContain('ws://127.0.0.1:9');
    expect(printed.stderr).toContain('\n  try: ');
    const kept = JSON.parse(await readFile(file('worker', 'settings.json'), 'utf8'));
    expect(kept).toMatchObject({ run: 'r', model: 'linear' });

    const other = await start(...linear, ...soon, '--rounds', '9');
    expect(other.exitCode).toBe(1);
    // a start that failed binds nobody
    expect(other.stderr).toContain('error (relay/none-reachable)');
  });

  it('refuses a form that its final state could not have before it starts', async () => {
    const gpt = ['--model', 'gpt', '--sync', 'strict:2', '--relay', 'ws://127.0.0.1:9'];
    const printed = await start(...gpt, '-o', file('gpt.pt'));
    expect(printed.exitCode).toBe(1);
    expect(printed.stderr).toContain(
      'gpt.pt: a PyTorch state can only hold linear or mlp, not gpt',
    );
  });

  it.each([
    [['--relay', 'http://x'], 'error (relay/bad-url): not a relay address: "http://x"'],
    [['--relay', 'ws://127.0.0.1:9', '--sec-key', 'x'], '--sec-key is not a secret key'],
    [['--relay', 'ws://127.0.0.1:9', '--key-file', '/none'], 'cannot read the key file /none'],
  ])('exits 1 for %j', async (flags, message) => {
    const { exitCode, stderr } = await start('--model', 'linear', '--sync', 'strict:1', ...flags);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(message);
  });

  it.each([
    ['{"modell": "linear"}', 2, 'there is no setting "modell"', 'the settings are run, '],
    ['{"rounds": "five"}', 2, 'settings.json: rounds is "five"', 'a whole number of at least 1'],
    [
      '{"sync": "strict"}',
      2,
      'settings.json: sync is "strict"',
      'timeout, strict:N, quorum or async',
    ],
    ['{"topk": 0}', 1, 'settings.json: topk is 0', 'it must be a number in (0, 1]'],
    ['{"rounds": 5', 1, 'settings.json is not JSON', 'try: use the form'],
    ['[1]', 1, 'settings.json is not a JSON object', 'try: use the form'],
  ])('settings %s exit %d', async (text, exitCode, message, help) => {
    await writeFile(file('settings.json'), text);
    const printed = await start('--settings', file('settings.json'));
    expect(printed).toMatchObject({ exitCode, stdout: '' });
    expect(printed.stderr).toContain(message);
    expect(printed.stderr).toContain(help);
  });

  it('names a settings file that is not there', async () => {
    const printed = await start('--settings', file('none.json'));
    expect(printed).toMatchObject({ exitCode: 1, stdout: '' });
    expect(printed.stderr).toContain(`cannot read the settings file ${file('none.json')}`);
  });
});

describe('wordError', () => {
  it.each([
    [new NostrainError('flag/value', 'm'), 'error (flag/value): m', 2],
    [new NostrainError('settings/type', 'm'), 'error (settings/type): m', 2],
    [new NostrainError('settings/value', 'm'), 'error (settings/value): m', 1],
    [new NostrainError('run/busy', 'm', { hint: 'h' }), 'error (run/busy): m\n  try: h', 1],
    [Object.assign(new Error('x'), { name: 'AbortError' }), 'stopped', 1],
    ['text', 'internal error, please report it: text', 1],
  ])('case %#', (error, text, exitCode) => {
    expect(wordError(error)).toEqual({ text, exitCode });
  });

  it('shows where a bug is', () => {
    expect(wordError(new TypeError('bug')).text).toMatch(/please report it: TypeError: bug\n +at /);
  });
});
