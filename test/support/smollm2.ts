/** SmolLM2-135M-Instruct, a real model for tests and benchmarks: where this machine has it, or why it has not. */
import { existsSync } from 'node:fs';
import { smolLM2File } from 'nostrain/node/parts';
import type { Missing } from './needs.ts';

/** `NOSTRAIN_SMOLLM2`, or where `npm run fetch:smollm2` puts it. */
export const smolLM2: string = process.env.NOSTRAIN_SMOLLM2 ?? smolLM2File();

export const smolLM2Missing: Missing = existsSync(smolLM2)
  ? undefined
  : 'SmolLM2-135M-Instruct is not on this machine: npm run fetch:smollm2';

/** Throws unless the model is here. */
export function needSmolLM2(): string {
  if (smolLM2Missing !== undefined) throw new Error(smolLM2Missing);
  return smolLM2;
}
