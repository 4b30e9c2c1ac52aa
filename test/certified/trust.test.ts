/** `run join --trust DIGEST`: a worker starts only if relays have a certified history with the trusted outcome. */
import { writeFile } from 'node:fs/promises';
import { systemClock, toHex } from 'nostrain/base';
import { joinCertifiedRun } from 'nostrain/certified';
import { type CertifiedState, chainHeadOf } from 'nostrain/certified/parts';
import { createRelay } from 'nostrain/relay';
import { canonicalSpec } from 'nostrain/run';
import { genesis } from 'nostrain/worker';
import { afterAll, describe, expect, it } from 'vitest';
import { firstCertified } from '../../src/certified/join.ts';
import { certifiedSpec, generateRun } from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { createMemoryRelay } from '../support/memory-relays.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { arithmeticTrainer, secretOf } from '../support/swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const spec = certifiedSpec();
const run = generateRun([{}, {}, {}], spec);
const foreign = 'c'.repeat(64);
const known = run.rounds[1]!.digest;

const inFolder = temporaryFolder();
const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

const relay = createMemoryRelay('ws://memory.test');
for (const event of run.events) relay.put(event);
const asked = () => ({
  ...{ relays: relay.connect(), clock: systemClock, onNotice: () => undefined },
  signal: new AbortController().signal,
});
const refusal = {
  code: 'run/untrusted',
  message: `these relays have no certified history with outcome ${foreign}`,
  hint: expect.stringContaining('--relay URL'),
};

describe('attack: relays present a newcomer a run by someone who once owned its whole roster', () => {
  it('a worker with a trusted outcome does not start if no history has it', async () => {
    await expect(firstCertified({ spec, trust: foreign }, 1, asked())).rejects.toMatchObject(
      refusal,
    );
    await expect(firstCertified({ spec, trust: known }, 1, asked())).resolves.toBeDefined();
  });

  it('a worker with a saved state does not continue either', async () => {
    const { state } = run;
    const head = chainHeadOf(state, null);
    const { round, params, momentum } = state;
    const saved: CertifiedState = { ...genesis(params, 1), round, params, momentum, head };
    const worker = await joinCertifiedRun({
      ...{ spec, trust: foreign, secretKey: secretOf(7), ...asked() },
      trainer: arithmeticTrainer(7, params.layout, { clock: systemClock, trainMs: 0 }),
      store: { load: async () => saved, save: async () => undefined },
    });
    await expect(worker.run()).rejects.toMatchObject(refusal);
    await worker.close();
  });

  it('run join reports it and exits', async () => {
    const server = await createRelay();
    closing.push(() => server.close());
    await publishRaw(server.url, run.events);
    const file = inFolder('run.json');
    await writeFile(file, canonicalSpec(spec));
    const key = ['--sec-key', toHex(secretOf(7)), '--dir', inFolder('dir')];
    const asking = ['run', 'join', file, '--relay', server.url, '--trust', foreign, ...key];
    const { exitCode, stderr } = await runCommand(...asking);
    expect(exitCode).toBe(1);
    expect(stderr).toContain(`error (run/untrusted): ${refusal.message}`);
  });
});
