/** Runs whose draws mix in a beacon: what a replay needs, where it gets it, and that nothing goes on without. */
import { writeFile } from 'node:fs/promises';
import { sha256Hex } from 'nostrain/base';
import { beaconValue, drandRoundAt } from 'nostrain/consensus';
import { createRelay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { certifiedSpec, type GeneratedRun, generateRun } from '../../support/certified-run.ts';
import { runCommand } from '../../support/command-line.ts';
import { type DrandEndpoint, signRound, startDrand, testChain } from '../../support/drand.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const drand = { kind: 'drand', lagSeconds: 150, ...testChain(1_789_999_000, 3) } as const;
const signatureAfter = (time: number) => signRound(drandRoundAt(drand, time + drand.lagSeconds));
const valueAfter = (time: number): string => {
  const value = beaconValue(drand, time, { signature: signatureAfter(time) });
  if (!value.ok) throw new Error(value.issue.message);
  return value.value;
};
const made = generateRun(
  [{}, { absent: [4] }, {}],
  certifiedSpec({ beacon: drand }),
  [],
  valueAfter,
);
const times = [1_790_000_030, 1_790_000_090];
const inFolder = temporaryFolder();
let endpoint: DrandEndpoint;
beforeAll(async () => {
  endpoint = await startDrand();
});
afterAll(() => endpoint.close());

async function write({ events }: GeneratedRun, more: readonly object[] = []): Promise<string> {
  const file = inFolder('events.jsonl');
  await writeFile(file, [...events, ...more].map((each) => `${JSON.stringify(each)}\n`).join(''));
  return file;
}

const lines = (signatures: readonly string[]) =>
  signatures.map((signature, i) => ({ beacon: { time: times[i]!, signature } }));
const genuine = lines(times.map(signatureAfter));

describe('a run that mixes in drand', () => {
  it('replays with the signatures in its file, without asking anybody', async () => {
    const { exitCode, stdout } = await runCommand('replay', '--events', await write(made, genuine));
    expect(exitCode, stdout).toBe(0);
    expect(stdout).toContain('ok: 3 rounds, all recomputed in full');
    expect(stdout).toContain(made.state.modelRoot);
  });

  it('replays with an endpoint, and stops at the first round that lacks a value without one', async () => {
    const file = await write(made);
    const without = await runCommand('replay', '--events', file);
    expect(without.exitCode).toBe(1);
    expect(without.stdout).toMatch(/round {4}2 {2}not checked {2}missing: beacon 1790000030/);
    const asked = await runCommand('replay', '--events', file, '--drand', endpoint.url);
    expect(asked.exitCode, asked.stdout).toBe(0);
    const bad = await runCommand('replay', '--events', file, '--drand', 'http://127.0.0.1:9');
    expect(bad.exitCode).toBe(1);
    expect(bad.stderr).toContain('no beacon: drand round');
  });

  it('another signature is an error of its line, and stands for nothing', async () => {
    const [first, second] = times.map(signatureAfter) as [string, string];
    const file = await write(made, lines([second, first]));
    const { exitCode, stdout } = await runCommand('replay', '--events', file);
    expect(exitCode).toBe(1);
    expect(stdout).toContain('not the signature of drand round');
    expect(stdout).toContain(`line ${made.events.length + 1}  BAD`);
  });

  it('archive writes the signatures beside the events, and keeps those it has', async () => {
    const relay = await createRelay();
    await publishRaw(relay.url, made.events);
    const out = inFolder('archive.jsonl');
    const archive = ['archive', '--run', made.run, '--relay', relay.url, '--out', out];
    const written = await runCommand(...archive, '--drand', endpoint.url);
    expect(written.stdout).toContain('; 2 beacon values');
    const again = await runCommand(...archive);
    expect(again.stdout).toContain(', 0 new; 2 beacon values');
    await relay.close();
    const { exitCode, stdout } = await runCommand('replay', '--events', out);
    expect(exitCode, stdout).toBe(0);
  });

  it('cannot be joined without an endpoint', async () => {
    const file = inFolder('run.json');
    const spec = ['run', 'create', '--model', 'linear', '-o', file, '--set', 'beacon.kind=drand'];
    const keys = ['--sec-key', '01'.repeat(32)];
    expect((await runCommand(...spec, ...keys)).exitCode).toBe(0);
    const join = ['run', 'join', file, '--relay', 'ws://127.0.0.1:9', ...keys];
    const { exitCode, stderr } = await runCommand(...join);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('--drand URL');
  });
});

describe('a run that mixes in block hashes', () => {
  const block = { kind: 'block', lagSeconds: 150, chain: 'eip155:31337' };
  const hashAfter = (time: number) => sha256Hex(new TextEncoder().encode(`block ${time}`));
  const run = generateRun([{}, {}, {}], certifiedSpec({ beacon: block }), [], hashAfter);
  const recorded = (hash: (time: number) => string) =>
    times.map((time) => ({ beacon: { time, block: hash(time), height: 7 } }));

  it('replays with those in its file, and says that they are only what the file says', async () => {
    const file = await write(run, recorded(hashAfter));
    const { exitCode, stdout, stderr } = await runCommand('replay', '--events', file);
    expect(exitCode, stdout).toBe(0);
    expect(stderr).toContain('2 block hashes of the beacon are taken from the file unchecked');
  });

  it('another hash makes other committees: nobody decided anything', async () => {
    const file = await write(
      run,
      recorded((time) => hashAfter(time + 1)),
    );
    const { exitCode, stdout } = await runCommand('replay', '--events', file);
    expect(exitCode, stdout).toBe(1);
    expect(stdout).toMatch(/round {4}2 {2}not checked/);
  });
});
