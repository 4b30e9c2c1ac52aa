import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, toHex } from 'nostrain/base';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  createSecretKey,
  loadKey,
  parseSecretKey,
  publicKeyOf,
  toNpub,
  toNsec,
  writeKeyFile,
} from '../../../src/node/files/keys.ts';
import { describeWith, permissionsMissing } from '../../support/needs.ts';
import { readVectors } from '../../support/vectors.ts';

let home: string;
let dir: string;
let folders = 0;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'nostrain-keys-'));
});
beforeEach(async () => {
  dir = join(home, String(folders++));
  await mkdir(dir);
});
afterAll(() => rm(home, { recursive: true, force: true }));

const three = `${'0'.repeat(63)}3`;
const nsec = toNsec(parseSecretKey(three, 'test'));
const noEnv = {};

describe('parseSecretKey', () => {
  it.each([three, three.toUpperCase(), ` ${three}\n`, nsec, nsec.toUpperCase(), `${nsec}\r\n`])(
    'reads %j',
    (text) => {
      expect(toHex(parseSecretKey(text, 'test'))).toBe(three);
    },
  );

  it.each([
    '',
    'x',
    '00',
    three.slice(1),
    `${three}00`,
    '0'.repeat(64),
    'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141', // the order of the curve
    nsec.slice(0, -1),
    toNpub(publicKeyOf(parseSecretKey(three, 'test'))),
    `0x${three}`,
  ])('refuses %j, names where it is from and never repeats it', (text) => {
    const parse = () => parseSecretKey(text, '--sec-key');
    expect(parse).toThrow(ConfigError);
    expect(parse).toThrow(/^--sec-key is not a secret key$/);
    try {
      parse();
    } catch (error) {
      expect(error).toMatchObject({
        code: 'key/invalid',
        hint: expect.stringContaining('nostrain keygen'),
      });
    }
  });
});

interface KeyPair {
  readonly secret: string;
  readonly public: string;
}

it('public keys are those of the reference', () => {
  const { invocations } = readVectors<{ invocations: { argv: string[]; stdout: string }[] }>(
    'cli.json',
  );
  const recorded = invocations.filter(({ argv, stdout }) => argv[0] === 'derive-pubkey' && stdout);
  const pairs = recorded.map(
    ({ argv, stdout }): KeyPair => ({ secret: argv[1]!, public: stdout.trim() }),
  );
  expect(pairs.length).toBeGreaterThan(0);
  for (const pair of pairs) {
    expect(publicKeyOf(parseSecretKey(pair.secret, 'test'))).toBe(pair.public);
  }
});

it('new keys differ', () => {
  expect(toHex(createSecretKey())).not.toBe(toHex(createSecretKey()));
});

describe('loadKey', () => {
  it('takes the flag first, with a warning', async () => {
    const env = { NOSTRAIN_SEC_KEY: nsec };
    const { secretKey, notices } = await loadKey({ secKey: three, keyFile: 'none', env, dir });
    expect(toHex(secretKey)).toBe(three);
    expect(notices).toEqual([expect.stringContaining('--key-file FILE is safer')]);
  });

  it('then the file', async () => {
    const file = join(dir, 'mine');
    const key = createSecretKey();
    await writeKeyFile(file, key);
    const loaded = await loadKey({ keyFile: file, env: { NOSTRAIN_SEC_KEY: nsec }, dir });
    expect(loaded).toEqual({ secretKey: key, notices: [], file });
  });

  it('then the environment', async () => {
    const loaded = await loadKey({ env: { NOSTRAIN_SEC_KEY: nsec }, dir });
    expect([toHex(loaded.secretKey), loaded.notices]).toEqual([three, []]);
    await expect(loadKey({ env: { NOSTRAIN_SEC_KEY: 'x' }, dir })).rejects.toThrow(
      'NOSTRAIN_SEC_KEY is not a secret key',
    );
  });

  it('then the key of the folder, which is made once', async () => {
    const first = await loadKey({ env: noEnv, dir });
    const npub = toNpub(publicKeyOf(first.secretKey));
    expect(first.notices).toEqual([expect.stringContaining(`this worker is ${npub}`)]);
    expect(await loadKey({ env: noEnv, dir })).toEqual({ ...first, notices: [] });
  });

  it('else says how to get one', async () => {
    await expect(loadKey({ env: noEnv })).rejects.toMatchObject({
      code: 'key/missing',
      hint: expect.stringContaining('nostrain keygen -o FILE'),
    });
  });

  it('names a file that is missing, a folder, or holds no key', async () => {
    const file = join(dir, 'none');
    await expect(loadKey({ keyFile: file, env: noEnv })).rejects.toMatchObject({
      code: 'key/file',
      message: `cannot read the key file ${file}`,
      hint: `create one with \`nostrain keygen -o ${file}\``,
    });
    await expect(loadKey({ keyFile: dir, env: noEnv })).rejects.toMatchObject({ code: 'key/file' });
    await writeFile(file, 'nsec1nonsense\n');
    await expect(loadKey({ keyFile: file, env: noEnv })).rejects.toThrow(
      `key file ${file} is not a secret key`,
    );
  });
});

describeWith(permissionsMissing)('a key file', () => {
  const modeOf = async (file: string) => (await stat(file)).mode & 0o777;

  it('is for its owner only and never replaced', async () => {
    const file = join(dir, 'key');
    const key = createSecretKey();
    await writeKeyFile(file, key);
    expect(await modeOf(file)).toBe(0o600);
    await expect(writeKeyFile(file, createSecretKey())).rejects.toMatchObject({
      code: 'key/file',
      message: `${file} exists and was not overwritten`,
    });
    expect(await readFile(file, 'utf8')).toBe(`${toNsec(key)}\n`);
    // its folder can be no folder
    await expect(writeKeyFile(join(file, 'key'), key)).rejects.toMatchObject({
      code: 'key/file',
    });
  });

  it('makes the folder it goes to: a fresh machine has none', async () => {
    const file = join(dir, 'share', 'nostrain', 'key');
    await writeKeyFile(file, createSecretKey());
    expect(await modeOf(file)).toBe(0o600);
    const own = join(dir, 'home', 'keys');
    const { secretKey } = await loadKey({ dir: own, env: noEnv });
    expect((await loadKey({ dir: own, env: noEnv })).secretKey).toEqual(secretKey);
  });

  it('that others can read is tightened, once', async () => {
    const file = join(dir, 'loose');
    await writeFile(file, nsec);
    await chmod(file, 0o644);
    const { notices } = await loadKey({ keyFile: file, env: noEnv });
    expect(notices).toEqual([expect.stringContaining('was readable by others')]);
    expect(await modeOf(file)).toBe(0o600);
    expect((await loadKey({ keyFile: file, env: noEnv })).notices).toEqual([]);
  });
});
