import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { tidyDemo } from '../../demos/shared/tidy.ts';
import { decodeSafetensors, encodeSafetensors } from '../../src/tensor/safetensors.ts';
import { temporaryFolder } from '../support/processes.ts';

it('a finished demo keeps one model without the state of its optimizer, and the records of all workers', async () => {
  const dir = temporaryFolder();
  const values = Float32Array.of(1, 2, 3);
  const tensors = ['layer.weight', 'nostrain.momentum'].map((name) => ({
    name,
    shape: [3],
    values,
  }));
  const metadata = { format: 'nostrain-run', worker: '{"round":3}' };
  for (const name of ['alice', 'bob']) {
    mkdirSync(join(dir, name, 'private'), { recursive: true });
    writeFileSync(join(dir, name, 'state.safetensors'), encodeSafetensors({ tensors, metadata }));
    for (const file of ['phase.safetensors', 'private/a', 'log.ndjson', 'key'])
      writeFileSync(join(dir, name, file), 'x');
  }
  await tidyDemo(dir, ['alice', 'bob', 'carol']);
  const namesIn = (worker: string) => {
    const state = decodeSafetensors(readFileSync(join(dir, worker, 'state.safetensors')));
    if (!state.ok) throw new Error(state.issue.message);
    expect(state.value.metadata).toEqual(metadata);
    return state.value.tensors.map(({ name }) => name);
  };
  expect(namesIn('alice')).toEqual(['layer.weight']);
  expect(namesIn('bob')).toEqual([]);
  for (const name of ['alice', 'bob']) {
    expect(existsSync(join(dir, name, 'phase.safetensors'))).toBe(false);
    expect(existsSync(join(dir, name, 'private'))).toBe(false);
    expect(existsSync(join(dir, name, 'log.ndjson'))).toBe(true);
    expect(existsSync(join(dir, name, 'key'))).toBe(true);
  }
});
