/** Loads a secret key (hex or nsec) from a file, the environment or a flag, or creates and stores a new one. */
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { schnorr, secp256k1 } from '@noble/curves/secp256k1.js';
import { decode, npubEncode, nsecEncode } from 'nostr-tools/nip19';
import { fromHex, isHex32, toHex } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { createSigner, type Signer } from '../../network/event.ts';
import { createSealKeys, type SealKeys, sealKeyOf } from '../../sealed/hpke.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { kindOf } from './atomic-file.ts';
import { dataHome } from './data-home.ts';

export interface KeySource {
  readonly secKey?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly env?: NodeJS.ProcessEnv;
  /** Folder of a newly created key. */
  readonly dir?: string | undefined;
}

export interface LoadedKey {
  /** The file it is in; undefined if it came from a flag or the environment. */
  readonly file?: string;
  readonly secretKey: Uint8Array;
  /** Notices for the user: a key was created, or was readable by others. */
  readonly notices: readonly string[];
}

/**
 * Parses a secret key from 64 hex digits or nsec1…, ignoring case and surrounding space. Throws a ConfigError
 * (`key/invalid`) that names where the text came from.
 */
export function parseSecretKey(text: string, from: string): Uint8Array {
  const lower = text.trim().toLowerCase();
  const key = lower.startsWith('nsec1') ? fromNsec(lower) : fromHex(lower);
  if (key?.length === 32 && isSecretKey(key)) return key;
  throw new ConfigError('key/invalid', `${from} is not a secret key`, {
    hint: 'a key is 64 hex digits or nsec1…; create one with `nostrain keygen`',
  });
}

function fromNsec(text: string): Uint8Array | undefined {
  try {
    const decoded = decode(text);
    return decoded.type === 'nsec' ? decoded.data : undefined;
  } catch {
    return undefined;
  }
}

const isSecretKey = (key: Uint8Array): boolean => secp256k1.utils.isValidSecretKey(key);

/** Returns a new secret key, 32 random bytes. */
export const createSecretKey = (): Uint8Array => secp256k1.utils.randomSecretKey();

/** Returns the x-only public key of a secret key, in hex. */
export const publicKeyOf = (secretKey: Uint8Array): string =>
  toHex(schnorr.getPublicKey(secretKey));

export const toNsec = (secretKey: Uint8Array): string => nsecEncode(secretKey);

/** Returns the npub (NIP-19) of a public key in hex. */
export const toNpub = (publicKey: string): string => npubEncode(publicKey);

/**
 * Loads the key from `--sec-key`, `--key-file`, NOSTRAIN_SEC_KEY or the folder, the first that is set. A missing key in
 * the folder is created. Throws a ConfigError (`key/…`).
 */
export async function loadKey({
  secKey,
  keyFile,
  env = process.env,
  dir,
}: KeySource): Promise<LoadedKey> {
  if (secKey !== undefined) {
    const warning = '--sec-key can be read by every user of this machine; --key-file FILE is safer';
    return { secretKey: parseSecretKey(secKey, '--sec-key'), notices: [warning] };
  }
  if (keyFile !== undefined) return readKeyFile(keyFile);
  if (env.NOSTRAIN_SEC_KEY) {
    return { secretKey: parseSecretKey(env.NOSTRAIN_SEC_KEY, 'NOSTRAIN_SEC_KEY'), notices: [] };
  }
  if (dir === undefined) {
    throw new ConfigError('key/missing', 'no secret key given', {
      hint: 'use --key-file FILE; create one with `nostrain keygen -o FILE`',
    });
  }
  const file = join(dir, 'key');
  if ((await kindOf(file)) !== undefined) return readKeyFile(file);
  const secretKey = createSecretKey();
  await writeKeyFile(file, secretKey);
  const npub = toNpub(publicKeyOf(secretKey));
  return { secretKey, file, notices: [`created a new key in ${file}: this worker is ${npub}`] };
}

/** Writes the key as nsec text, readable by its owner only. Throws a ConfigError (`key/file`) if the file exists. */
export async function writeKeyFile(file: string, secretKey: Uint8Array): Promise<void> {
  const options = { mode: 0o600, flag: 'wx' };
  // a problem with the folder is reported when the file is written
  await mkdir(dirname(file), { recursive: true, mode: 0o700 }).catch(() => undefined);
  await writeFile(file, `${toNsec(secretKey)}\n`, options).catch((cause: unknown) => {
    const exists = (cause as NodeJS.ErrnoException).code === 'EEXIST';
    throw new ConfigError(
      'key/file',
      exists ? `${file} exists and was not overwritten` : `cannot write the key file ${file}`,
      { hint: 'name a new file in a writable folder', cause },
    );
  });
}

async function readKeyFile(file: string): Promise<LoadedKey> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
    throw new ConfigError('key/file', `cannot read the key file ${file}`, {
      hint: missing ? `create one with \`nostrain keygen -o ${file}\`` : 'name a readable file',
      cause,
    });
  });
  const secretKey = parseSecretKey(text, `key file ${file}`);
  return { secretKey, file, notices: await closeToOthers(file) };
}

/** Makes the file readable by its owner only, except on Windows. Returns a notice if that was needed. */
async function closeToOthers(file: string): Promise<readonly string[]> {
  const { mode } = await stat(file);
  if (process.platform === 'win32' || (mode & 0o077) === 0) return [];
  try {
    await chmod(file, 0o600);
    return [`key file ${file} was readable by others; now only by you (mode 0600)`];
  } catch {
    return [`key file ${file} is readable by others, and its permissions cannot be changed`];
  }
}

/** Returns a signer with the key of a flag or the environment, else of the data folder, which is created if absent. */
export async function homeSigner(
  source: Pick<KeySource, 'secKey' | 'keyFile'>,
  onNotice: (words: string) => void,
): Promise<Signer> {
  const dir = dataHome();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { secretKey, notices } = await loadKey({ ...source, dir });
  notices.forEach(onNotice);
  return createSigner(secretKey, nativeCrypto);
}

/**
 * Loads the X25519 key pair of a worker from the data folder, or creates it there: `seal-key-<npub>`, readable by its
 * owner only. Throws a ConfigError (`key/invalid`) for a damaged file.
 */
export async function loadSealKeys(worker: string): Promise<SealKeys> {
  const file = join(dataHome(), `seal-key-${toNpub(worker)}`);
  if ((await kindOf(file)) === undefined) {
    const { secretKey } = await createSealKeys();
    await writeFile(file, `${secretKey}\n`, { mode: 0o600, flag: 'wx' });
  }
  const secretKey = (await readFile(file, 'utf8')).trim();
  if (!isHex32(secretKey)) {
    throw new ConfigError('key/invalid', `${file} holds no X25519 key`, {
      hint: 'remove the file to get a new key; data sealed to the old one stays closed',
    });
  }
  await closeToOthers(file);
  return { secretKey, publicKey: sealKeyOf(secretKey) };
}
