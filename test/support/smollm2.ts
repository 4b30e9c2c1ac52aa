/** Locates SmolLM2-135M-Instruct, a real model for tests and benchmarks, on this machine. */
import { existsSync } from 'node:fs';
import { smolLM2File } from 'nostrain/node/parts';
import type { Missing } from './needs.ts';

/** Path of the model: `NOSTRAIN_SMOLLM2`, or the path that `npm run fetch:smollm2` downloads to. */
export const smolLM2: string = process.env.NOSTRAIN_SMOLLM2 ?? smolLM2File();

export const smolLM2Missing: Missing = existsSync(smolLM2)
  ? undefined
  : 'SmolLM2-135M-Instruct is not on this machine: npm run fetch:smollm2';

/** Returns the path of the model. Throws if this machine lacks it. */
export function needSmolLM2(): string {
  if (smolLM2Missing !== undefined) throw new Error(smolLM2Missing);
  return smolLM2;
}
