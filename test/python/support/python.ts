/** Runs the Python reference for tests that compare with it; NOSTRAIN_PYTHON and NOSTRAIN_REFERENCE name it. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Missing } from '../../support/needs.ts';

const { NOSTRAIN_PYTHON: interpreter, NOSTRAIN_REFERENCE: reference } = process.env;

export const pythonMissing: Missing =
  interpreter === undefined || reference === undefined
    ? 'NOSTRAIN_PYTHON names no interpreter with numpy, torch and websockets, or NOSTRAIN_REFERENCE no checkout'
    : undefined;

/** Resolves with the output of a command; rejects with its output if it fails. */
export async function python(...args: readonly string[]): Promise<string> {
  // the reference falls back to unsafe loading, which PyTorch has since made a choice of its own
  const unsafe = { TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD: '1' };
  const env = { ...process.env, ...unsafe, PYTHONPATH: join(reference!, 'src') };
  const { stdout } = await promisify(execFile)(interpreter!, args, { env });
  return stdout;
}
