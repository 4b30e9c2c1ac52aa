import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { beforeAll, expect, it } from 'vitest';
import { canonicalSpec } from '../../src/run/spec/run-spec.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/processes.ts';
import { sampleSpec } from '../support/run-spec.ts';

const folder = temporaryFolder();
const file = (name: string) => join(folder, name);
const lines = Array.from({ length: 300 }, (_, i) => `line ${i}\n`).join('');

/** Runs a command as this person, who has a data folder of their own. */
async function as(person: string, ...args: readonly string[]) {
  const before = process.env.NOSTRAIN_HOME;
  mkdirSync(file(person), { recursive: true });
  process.env.NOSTRAIN_HOME = file(person);
  try {
    return await runCommand('shard', ...args);
  } finally {
    if (before === undefined) delete process.env.NOSTRAIN_HOME;
    else process.env.NOSTRAIN_HOME = before;
  }
}

beforeAll(async () => {
  writeFileSync(file('data.txt'), lines);
  for (const person of ['alice', 'bob', 'eve']) {
    writeFileSync(file(`${person}.json`), (await as(person, 'key')).stdout);
  }
  const to = ['--to', file('alice.json'), '--to', file('bob.json')];
  await as('owner', 'seal', file('data.txt'), ...to, '--shards', '2', '-o', file('sealed'));
});

it('recipients open their shards, which together are the data', async () => {
  for (const person of ['alice', 'bob']) {
    const opened = await as(person, 'open', file('sealed'), '-o', file(`${person}.txt`));
    expect(opened.exitCode).toBe(0);
  }
  const parts = ['alice', 'bob'].map((person) => readFileSync(file(`${person}.txt`), 'utf8'));
  expect(parts.join('')).toBe(lines);
  expect(parts.every((part) => part.length > 0)).toBe(true);
});

it('a recipient is named by the key that it published', async () => {
  const relay = await createRelay();
  try {
    const reach = ['--relay', relay.url];
    const { pubkey } = JSON.parse(readFileSync(file('alice.json'), 'utf8'));
    const to = ['--to', pubkey, ...reach, '-o', file('named')];
    const early = await as('owner', 'seal', file('data.txt'), ...to);
    expect(early.stderr).toContain('no relay has a sealing key of npub1');
    expect((await as('alice', 'key', ...reach)).exitCode).toBe(0);
    expect((await as('owner', 'seal', file('data.txt'), ...to)).exitCode).toBe(0);
    const opened = await as('alice', 'open', file('named'), '-o', file('named.txt'));
    expect(opened.exitCode).toBe(0);
    expect(readFileSync(file('named.txt'), 'utf8')).toBe(lines);
  } finally {
    await relay.close();
  }
});

it('others open nothing, and nothing is readable', async () => {
  const refused = await as('eve', 'open', file('sealed'), '-o', file('eve.txt'));
  expect(refused).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('no shard is for'),
  });
  for (const name of readdirSync(file('sealed'), { recursive: true, encoding: 'utf8' })) {
    const path = join(file('sealed'), name);
    if (statSync(path).isFile()) expect(readFileSync(path, 'latin1')).not.toContain('line 1');
  }
});

it('verify names the data, a damaged shard and another manifest', async () => {
  const verified = await as('eve', 'verify', file('sealed'));
  expect(verified.stdout).toMatch(/^tee:\/\/[0-9a-f]{64}\n$/);
  const other = await as('eve', 'verify', file('sealed'), `tee://${'0'.repeat(64)}`);
  expect(other.stderr).toContain('SealedManifestHashMismatch');
  expect((await as('eve', 'list', file('sealed'))).stdout.match(/npub1/g)).toHaveLength(2);
  const first = join(file('sealed'), 'shard-0');
  const chunk = join(first, readdirSync(first).find((name) => name !== 'manifest.json')!);
  const damaged = readFileSync(chunk);
  damaged[5]! ^= 1;
  writeFileSync(chunk, damaged);
  expect((await as('eve', 'verify', file('sealed'))).stderr).toContain('shard 0 is damaged');
  rmSync(chunk);
  const missing = await as('alice', 'open', file('sealed'), '-o', file('missing.txt'));
  expect(missing.exitCode).toBe(1);
  expect(missing.stderr).toContain('is not in');
  expect(existsSync(file('missing.txt'))).toBe(false);
});

it('several files are sealed as one for the recipients of a run, each once', async () => {
  writeFileSync(file('a.csv'), 'x,y\n1,2\n3,4');
  writeFileSync(file('b.csv'), 'x,y\n5,6\n');
  writeFileSync(file('c.csv'), 'y,x\n5,6\n');
  const [alice, bob] = ['alice', 'bob'].map((person) => {
    const { pubkey, content } = JSON.parse(readFileSync(file(`${person}.json`), 'utf8'));
    return `${pubkey}:${JSON.parse(content).x25519}`;
  });
  const spec = sampleSpec({
    data: { kind: 'own' },
    sealed: {
      manifest: `tee://${'5e'.repeat(32)}`,
      id: '1d'.repeat(32),
      recipients: [alice!, bob!],
    },
    training: { model: 'char-gpt' },
  });
  writeFileSync(file('first.json'), canonicalSpec(spec));
  const to = ['--to', file('alice.json'), '--run', file('first.json'), '-o', file('second')];
  const mixed = await as('owner', 'seal', file('a.csv'), file('c.csv'), ...to);
  expect(mixed.stderr).toContain('c.csv is not like');
  await as('owner', 'seal', file('a.csv'), file('b.csv'), ...to);
  expect((await as('eve', 'list', file('second'))).stdout.match(/npub1/g)).toHaveLength(2);
  await as('bob', 'open', file('second'), '-o', file('second.csv'));
  expect(readFileSync(file('second.csv'), 'utf8')).toBe('x,y\n1,2\n3,4\n5,6\n');
});

it.each([
  ['nobody', [], 'has no recipient'],
  ['a recipient that is no event', ['--to', 'DATA'], 'is not a signed event'],
  ['more parts than lines', ['--to', 'ALICE', '--shards', '400'], 'fewer lines than parts'],
])('refuses %s', async (_, flags, why) => {
  const names: Record<string, string> = { DATA: file('data.txt'), ALICE: file('alice.json') };
  const given = flags.map((flag) => names[flag] ?? flag);
  const made = await as('owner', 'seal', file('data.txt'), ...given, '-o', file('none'));
  expect(made.exitCode).toBe(1);
  expect(made.stderr).toContain(why);
});
