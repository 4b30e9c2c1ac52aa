/** The delegation that `run join --bunker` asks for: what is stored, asked for again, and refused before anything starts. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultRetry } from 'nostrain/base';
import { createSigner } from 'nostrain/network';
import { createRelay, type Relay } from 'nostrain/relay';
import { runIdOf } from 'nostrain/run';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { delegationIn } from '../../../src/node/join/delegation.ts';
import { startBunker } from '../../support/bunker.ts';
import { sampleSpec } from '../../support/run-spec.ts';

const owner = new Uint8Array(32).fill(40);
const signer = createSigner(new Uint8Array(32).fill(41));
const other = createSigner(new Uint8Array(32).fill(42));

let relay: Relay;
let dir: string;
beforeAll(async () => {
  relay = await createRelay();
  dir = await mkdtemp(join(tmpdir(), 'nostrain-delegation-'));
});
afterAll(async () => {
  await relay.close();
  await rm(dir, { recursive: true, force: true });
});

const spec = sampleSpec({ sessions: true });

function ask(options: Partial<Parameters<typeof delegationIn>[1]>, of = spec) {
  const { signal } = new AbortController();
  const connection = { openTimeoutMs: 10_000, retry: defaultRetry };
  return delegationIn(of, {
    ...{ connection, signal, signer, dir, run: runIdOf(of), bunker: undefined },
    ...options,
  });
}

it('is asked for once, stored, and asked for again with another key', async () => {
  const bunker = await startBunker(relay.url, { owner });
  const first = await ask({ bunker: bunker.address });
  expect(first?.key).toBe(createSigner(owner).publicKey);
  expect(JSON.parse(await readFile(join(dir, 'delegation.json'), 'utf8'))).toEqual(first);
  expect(await ask({})).toEqual(first);
  expect(await ask({ bunker: bunker.address })).toEqual(first);
  expect(bunker.signed).toHaveLength(1);
  await expect(ask({ signer: other })).rejects.toMatchObject({ code: 'flag/bunker' });
  const second = await ask({ signer: other, bunker: bunker.address });
  expect(second?.sig).not.toBe(first?.sig);
  expect(bunker.signed).toHaveLength(2);
  await bunker.close();
});

it('is refused in a run without sessions, and from the key of the worker itself', async () => {
  const bunker = await startBunker(relay.url, { owner });
  const plain = ask({ bunker: bunker.address }, sampleSpec());
  await expect(plain).rejects.toMatchObject({ code: 'flag/bunker' });
  expect(bunker.signed).toEqual([]);
  const itself = ask({
    bunker: bunker.address,
    signer: createSigner(owner),
    dir: join(dir, 'own'),
  });
  await expect(itself).rejects.toMatchObject({ code: 'flag/bunker' });
  await bunker.close();
});
