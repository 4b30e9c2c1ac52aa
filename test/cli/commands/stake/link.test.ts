/** `nostrain stake link`: what it writes is what the source of Psyche stakes reads and believes. */
import { readFile, writeFile } from 'node:fs/promises';
import { ed25519 } from '@noble/curves/ed25519.js';
import { base58 } from '@scure/base';
import fc from 'fast-check';
import { toHex, utf8 } from 'nostrain/base';
import { describe, expect, test } from 'vitest';
import { fromBase58, isLink, linkedKeys, parseLinks } from '../../../../src/chain/psyche/links.ts';
import { toNpub, toNsec } from '../../../../src/node/files/keys.ts';
import { runCommand } from '../../../support/command-line.ts';
import { signerOf } from '../../../support/signers.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const file = temporaryFolder();
const CHAIN = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';
const secret = new Uint8Array(32).fill(7);
const account = base58.encode(ed25519.getPublicKey(secret));
const keyring = JSON.stringify([...secret, ...ed25519.getPublicKey(secret)]);

async function linked(...more: readonly string[]) {
  await writeFile(file('nsec'), `${toNsec(new Uint8Array(32).fill(1))}\n`, { mode: 0o600 });
  return runCommand('stake', 'link', '--run', 'moss', '--key-file', file('nsec'), ...more);
}

const readLinks = (text: string) => {
  const read = parseLinks(text);
  if (!read.ok) throw new Error(read.issue.message);
  return read.value;
};

describe('a link', () => {
  test('is signed with both keys, and counts for the account', async () => {
    await writeFile(file('id.json'), keyring);
    const { exitCode, stdout, stderr } = await linked(
      ...['--account-key', file('id.json'), '--made', '1000', '--days', '2'],
    );
    expect(exitCode, stderr).toBe(0);
    const [made] = readLinks(stdout);
    expect(made).toMatchObject({
      ...{ chain: CHAIN, account, key: signerOf(1).publicKey, run: 'moss' },
      ...{ made: 1000, expires: 1000 + 2 * 86_400 },
    });
    expect(isLink(made!)).toBe(true);
    const question = { chain: CHAIN, run: 'moss', cutoff: 1000 };
    const hex = toHex(ed25519.getPublicKey(secret));
    expect([...linkedKeys([made!], question)]).toEqual([[hex, signerOf(1).publicKey]]);
  });

  test('is signed elsewhere: the statement goes out, the signature comes back, in hex or base58', async () => {
    const asked = await linked('--account', account, '--made', '1000');
    expect(asked.exitCode).toBe(0);
    expect(asked.stdout).toMatch(/^nostrain link 1\nchain: .*\naccount: .*\nexpires: \d+$/s);
    expect(asked.stderr).toContain('--made 1000 --account-sig');
    const signature = ed25519.sign(utf8(asked.stdout), secret);
    for (const text of [toHex(signature), base58.encode(signature)]) {
      const back = ['--account', account, '--made', '1000', '--account-sig', text];
      const { exitCode, stdout, stderr } = await linked(...back);
      expect(exitCode, stderr).toBe(0);
      expect(isLink(readLinks(stdout)[0]!)).toBe(true);
    }
  });

  test('is added to a list; a file with anything else is left as it is', async () => {
    await writeFile(file('id.json'), keyring);
    const add = ['--account-key', file('id.json'), '-o', file('links.json'), '--made'];
    await linked(...add, '1000');
    const second = await linked(...add, '2000');
    expect(second.stderr).toContain(
      `linked ${account} to ${toNpub(signerOf(1).publicKey)} in moss`,
    );
    const links = readLinks(await readFile(file('links.json'), 'utf8'));
    expect(links.map(({ made }) => made)).toEqual([1000, 2000]);
    await writeFile(file('links.json'), 'my diary');
    expect((await linked(...add, '3000')).exitCode).toBe(1);
    expect(await readFile(file('links.json'), 'utf8')).toBe('my diary');
  });

  test.each<[string, readonly string[], string]>([
    ['no account', [], 'add --account-key FILE, or --account BASE58'],
    ['no address', ['--account', 'alice'], 'alice is not a Solana account'],
    ['a run in two words', ['--account', account, '--run', 'two words'], 'without spaces'],
    ['no time', ['--account', account, '--account-sig', '00'], 'needs the --made'],
    ['no signature', ['--account', account, '--made', '1', '--account-sig', 'x'], '64 bytes'],
    [
      'a signature of something else',
      ['--account', account, '--made', '1', '--account-sig', '11'.repeat(64)],
      'the account did not sign this statement',
    ],
  ])('with %s is refused in words', async (_, flags, words) => {
    const { exitCode, stdout, stderr } = await linked(...flags);
    expect(exitCode).toBeGreaterThan(0);
    expect(stdout).toBe('');
    expect(stderr).toContain(words);
  });

  test.each([
    ['[1,2]', 'not a list of 64 numbers'],
    [JSON.stringify(Array(64).fill(256)), 'from 0 to 255'],
    [JSON.stringify(Array(64).fill(7)), 'not the public key'],
    ['nonsense', 'not a list of 64 numbers'],
  ])('with the account key %s is refused', async (text, words) => {
    await writeFile(file('odd.json'), text);
    const { exitCode, stderr } = await linked('--account-key', file('odd.json'));
    expect(exitCode).toBe(1);
    expect(stderr).toContain(words);
  });

  test('with a key of another account than the one named is refused', async () => {
    await writeFile(file('id.json'), keyring);
    const other = base58.encode(ed25519.getPublicKey(new Uint8Array(32).fill(8)));
    const { exitCode, stderr } = await linked(
      ...['--account-key', file('id.json'), '--account', other],
    );
    expect(exitCode).toBe(2);
    expect(stderr).toContain(`--account-key holds the key of ${account}`);
  });
});

test('base58 writes what it reads', () => {
  for (const length of [32, 64]) {
    const bytes = fc.uint8Array({ minLength: length, maxLength: length });
    fc.assert(
      fc.property(bytes, fc.nat(length), (value, zeros) => {
        const some = value.slice().fill(0, 0, zeros);
        expect(fromBase58(base58.encode(some), length)).toEqual(some);
      }),
    );
  }
});
