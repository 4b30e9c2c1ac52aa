/** Commands on files as processes: a checkpoint is packed, pushed to a relay and fetched back; a base model is inspected. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { expect, it, onTestFinished } from 'vitest';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { runProgram, temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

const prints = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await runProgram(args);
  expect(code, stderr).toBe(0);
  return stdout;
};

it('a checkpoint is packed, pushed to a relay and fetched by its digest', async () => {
  const relay = await createRelay();
  onTestFinished(() => relay.close());
  const folder = temporaryFolder();
  const at = (name: string) => join(folder, name);
  const payload = drawnBytes(500_000);
  writeFileSync(at('state'), payload);
  const packed = await prints('checkpoint', 'pack', at('state'), '--out', at('chunks'));
  const digest = /^digest {3}([0-9a-f]{64})$/m.exec(packed)?.[1] ?? '';
  const key = ['--sec-key', '01'.repeat(32)];
  await prints('checkpoint', 'push', at('chunks'), '--to', relay.url, ...key);
  const out = ['--out', at('fetched'), '--file', at('state again')];
  await prints('checkpoint', 'fetch', digest, '--from', relay.url, ...out);
  expect(new Uint8Array(readFileSync(at('state again')))).toEqual(payload);
});

it('a file of 70 MB is packed and verified by threads', async () => {
  const folder = temporaryFolder();
  const [file, chunks] = [join(folder, 'state'), join(folder, 'chunks')];
  writeFileSync(file, Buffer.alloc(70_000_000, 'nostrain'));
  await prints('checkpoint', 'pack', file, '--out', chunks);
  expect(await prints('checkpoint', 'verify', chunks)).toContain('chunks are valid');
  rmSync(folder, { recursive: true });
});

it('a base model is inspected', async () => {
  const folder = temporaryFolder();
  await writeTinyLlama(folder);
  const { parameters } = JSON.parse(await prints('model', 'inspect', folder, '--json'));
  expect(parameters).toBeGreaterThan(1000);
});
