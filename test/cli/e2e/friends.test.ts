/** Friends as separate processes: one line by the host, one by each friend; a restarted host, and a friend who is late. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { linearOnnx } from '../../support/imported.ts';
import { type Program, printed, startProgram, temporaryFolder } from '../../support/processes.ts';
import { writeTinyLlama } from '../../support/tiny-llama.ts';

let relay: Relay;
beforeAll(async () => {
  relay = await createRelay();
});
afterAll(() => relay.close());

const LINEAR = ['--model', 'linear', '--rounds', '4', '--json'];

const lineOf = (host: Program) => printed(host, /nostrain1[a-z0-9]+/);

interface Result {
  readonly run: string;
  readonly counted: number;
  readonly agreed: boolean;
  readonly rounds: readonly {
    readonly root: string;
    readonly counted: readonly { readonly name?: string }[];
  }[];
}

async function resultOf({ exit, output }: Program): Promise<Result> {
  expect(await exit, output.stderr).toBe(0);
  return JSON.parse(output.stdout);
}

const rootsOf = ({ rounds }: Result) => rounds.map(({ root }) => root);

describe('nostrain host and nostrain join', () => {
  it('gather three people, who train together and agree', async () => {
    const host = startProgram(['host', 'winter', '--people', '3', '--name', 'Anna', ...LINEAR]);
    const line = await lineOf(host);
    const friends = ['Bea', 'Cid'].map((name) =>
      startProgram(['join', line, '--name', name, '--json']),
    );
    await printed(friends[0]!, /waiting for .*Anna|3 of 3 are here/);
    const [first, ...others] = await Promise.all([host, ...friends].map(resultOf));
    expect(first!.agreed).toBe(true);
    expect(first!.rounds.length).toBe(4);
    const names = first!.rounds.flatMap(({ counted }) => counted.map(({ name }) => name));
    expect(new Set(names)).toEqual(new Set(['Anna', 'Bea', 'Cid']));
    for (const other of others) {
      expect(other).toMatchObject({ run: first!.run, agreed: true });
      expect(rootsOf(other).at(-1)).toBe(rootsOf(first!).at(-1));
    }
  }, 120_000);

  it('open the same lobby when the host is restarted before the start', async () => {
    const home = temporaryFolder();
    const argv = ['host', 'spring', '--people', '2', '--relay', relay.url, ...LINEAR];
    const before = startProgram(argv, home);
    const line = await lineOf(before);
    before.child.kill('SIGKILL');
    await before.exit;
    const friend = startProgram(['join', line, '--name', 'Bea', '--json']);
    await printed(friend, /1 of 2|2 of 2/);
    const again = startProgram(argv, home);
    expect(await lineOf(again)).toBe(line);
    const results = await Promise.all([again, friend].map(resultOf));
    expect(results.map(({ agreed, counted }) => ({ agreed, counted }))).toEqual([
      { agreed: true, counted: 4 },
      { agreed: true, counted: 4 },
    ]);
  }, 120_000);

  it('go on without a founder who is gone, who is told what did not count', async () => {
    const long = [...LINEAR.slice(0, 2), '--rounds', '6', '--inner-steps', '8000', '--json'];
    const argv = ['host', 'autumn', '--people', '3', '--relay', relay.url, ...long];
    const host = startProgram(argv);
    const line = await lineOf(host);
    const home = temporaryFolder();
    const bea = startProgram(['join', line, '--json']);
    const cid = startProgram(['join', line, '--name', 'Cid', '--json'], home);
    await printed(cid, /round 1 done/);
    cid.child.kill('SIGKILL');
    await cid.exit;
    await printed(host, /Cid \(npub1\w+\) is away; the run goes on/);
    const [first, second] = await Promise.all([host, bea].map(resultOf));
    expect(rootsOf(second!).at(-1)).toBe(rootsOf(first!).at(-1));
    const late = startProgram(['join', line, '--name', 'Cid', '--json'], home);
    expect((await resultOf(late)).counted).toBeLessThan(6);
    expect(late.output.stderr).toMatch(/Your work counted in \d of 6 rounds\. Not counted: .*away/);
  }, 180_000);

  it('tune a published model that travels from the host, and read each other by name', async () => {
    const folder = temporaryFolder();
    await writeTinyLlama(folder);
    const text = join(folder, 'text.txt');
    writeFileSync(text, 'to be or not to be, that is the question. '.repeat(1000));
    const sizes = ['--context', '32', '--batch-size', '2', '--inner-steps', '2', '--rounds', '2'];
    const argv = ['--base', folder, '--corpus', text, ...sizes, '--json'];
    const host = startProgram(['host', 'tune', '--people', '2', '--name', 'Anna', ...argv]);
    const friend = startProgram(['join', await lineOf(host), '--name', 'Bea', '--json']);
    const [first, second] = await Promise.all([host, friend].map(resultOf));
    expect(first).toMatchObject({ agreed: true });
    expect(rootsOf(second!)).toEqual(rootsOf(first!));
    expect(host.output.stderr).toMatch(/sending model\.safetensors, [\d.]+ kB, to the relays/);
  }, 120_000);

  it('train a model from an ONNX file that travels from the host', async () => {
    const model = join(temporaryFolder(), 'line.onnx');
    writeFileSync(model, linearOnnx(0.25));
    const argv = ['--model', model, '--task', 'regress', '--rounds', '2', '--json'];
    const host = startProgram(['host', 'line', '--people', '2', '--name', 'Anna', ...argv]);
    const friend = startProgram(['join', await lineOf(host), '--name', 'Bea', '--json']);
    const [first, second] = await Promise.all([host, friend].map(resultOf));
    expect(first).toMatchObject({ agreed: true });
    expect(rootsOf(second!)).toEqual(rootsOf(first!));
    expect(host.output.stderr).toMatch(/sending weights\.bin, [\d.]+ k?B, to the relays/);
  }, 120_000);
});
