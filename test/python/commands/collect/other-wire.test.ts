/** Commands of the Python reference on a run with profile nostrain/1. */

import { systemClock } from 'nostrain/base';
import { buildManifest, buildPresence, createRelaySet, createSigner } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCommand } from '../../../support/command-line.ts';

const [alice, bob, carol] = [1, 2, 3].map((n) => createSigner(new Uint8Array(32).fill(n))) as [
  ReturnType<typeof createSigner>,
  ReturnType<typeof createSigner>,
  ReturnType<typeof createSigner>,
];
let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
  const relays = createRelaySet([relay.url], {
    openSocket,
    clock: systemClock,
    crypto: nativeCrypto,
  });
  const createdAt = Math.floor(Date.now() / 1000);
  const heartbeat = {
    ...{ round: 2, intervalSeconds: 60, capabilities: [], relays: [], createdAt },
    ...{ examples: undefined, digest: undefined, cohort: undefined, leaving: false },
  };
  const fields = {
    run: 'tea',
    round: 3,
    base: 'a'.repeat(64),
    codec: 'f32',
    examples: 1,
    steps: 1,
  };
  const { draft } = buildManifest(fields, new Uint8Array([1]), {
    ...{ createdAt, expiresAt: createdAt + 60 },
  });
  const { signal } = new AbortController();
  for (const event of [
    alice.sign(buildPresence('tea', { ...heartbeat, worker: alice.publicKey })),
    bob.sign(draft),
    carol.sign(buildPresence('tea', { ...heartbeat, worker: carol.publicKey, leaving: true })),
  ]) {
    const [outcome] = await relays.publish(event, { signal });
    expect(outcome?.status).toBe('accepted');
  }
  await relays.close();
});
afterAll(() => relay.close());

const ask = (command: string, run: string, ...more: readonly string[]) =>
  runCommand(command, '--relay', relay.url, '--run', run, '--idle-timeout', '0.5', ...more);

it('discover-workers lists the workers of a run on either wire', async () => {
  const { exitCode, stdout } = await ask('discover-workers', 'tea');
  expect(exitCode).toBe(0);
  const [first, second] = [alice.publicKey, bob.publicKey].sort();
  expect(stdout).toContain(`wire: nostrain/1\nworkers: ${first}, ${second}\n`);
  expect(stdout).toContain(`stale_workers: ${carol.publicKey}\n`);
  expect(stdout).toContain(`${alice.publicKey}: in round 3\n`);
  expect(stdout).toContain(`${bob.publicKey}: in round 4\n`);
  const json = JSON.parse((await ask('discover-workers', 'tea', '--json', '--round', '3')).stdout);
  expect(json).toMatchObject({ run: 'tea', wire: 'nostrain/1', relays: [relay.url] });
  expect(json.workers).toEqual([
    { worker: bob.publicKey, round: 3, createdAt: expect.any(Number), isStale: false },
  ]);
});

it.each([
  ['discover-checkpoints'],
  ['collect-events', '--round', '2'],
  ['aggregate-round', '--round', '2'],
])('%s says which wire it reads, and fails', async (command, ...more) => {
  const { exitCode, stdout, stderr } = await ask(command!, 'tea', ...more);
  expect([exitCode, stdout]).toEqual([1, '']);
  expect(stderr).toContain('run tea has 3 workers on the wire profile nostrain/1');
  expect(stderr).toContain(`${command} reads nostrain/0`);
});

it.each([
  ['discover-workers', 'worker'],
  ['discover-checkpoints', 'checkpoint'],
  ['collect-events', 'gradient', '--round', '2'],
])('%s says that there is no such run', async (command, what, ...more) => {
  const { exitCode, stdout } = await ask(command!, 'nope', ...more);
  expect(exitCode).toBe(0);
  expect(stdout).toContain(`No ${what} of run "nope" found.\n`);
});
