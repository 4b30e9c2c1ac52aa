/** Validators that merge, as separate processes over one relay: rounds end by the clock, and all hold one model. */
import { getPublicKey } from 'nostr-tools/pure';
import { createRelay } from 'nostrain/relay';
import { expect, it } from 'vitest';
import { startProgram } from '../../support/processes.ts';

const secrets = ['01', '02', '03'].map((byte) => byte.repeat(32));
const START_SECONDS = 10;
const SETTINGS = ['--model', 'linear', '--rounds', '2', '--seed', '1'];

it('C-12: three validators train, merge and agree, though nothing says how many workers there are', async () => {
  const relay = await createRelay();
  try {
    const validators = secrets.map((secret) => getPublicKey(Buffer.from(secret, 'hex'))).join(',');
    const mergeStart = Math.floor(Date.now() / 1000) + START_SECONDS;
    const merging = { validators, mergeStart, mergeTrain: 3, mergeTimeout: 2 };
    const sets = Object.entries(merging).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    const argv = ['run-training', '--run', 'merge', '--relay', relay.url, ...SETTINGS, ...sets];
    const workers = secrets.map((secret) => startProgram([...argv, '--sec-key', secret]));
    const states = await Promise.all(
      workers.map(async ({ exit, output }) => {
        expect(await exit, output.stderr).toBe(0);
        expect(output.stdout).toMatch(/round 2 done .* 3 counted/);
        return /done after 2 rounds: .* state (\w+)/.exec(output.stdout)?.[1];
      }),
    );
    expect(states[0]).toBeTypeOf('string');
    expect(new Set(states).size).toBe(1);
  } finally {
    await relay.close();
  }
}, 120_000);
