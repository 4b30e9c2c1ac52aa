/** A run that goes on from a certified state of another one: its lineage is rebuilt by replay, and a false one is found. */
import { readFile, writeFile } from 'node:fs/promises';
import { toHex } from 'nostrain/base';
import { formatArchive, replayRun } from 'nostrain/certified';
import { createRelay } from 'nostrain/relay';
import { describe, expect, it } from 'vitest';
import { firstOfFork, forkPointOf } from '../../src/certified/records/fork.ts';
import { encodeRunAddress } from '../../src/certified/wire/runs.ts';
import {
  certifiedSpec,
  type GeneratedRun,
  generateRun,
  signerOf,
} from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const inFolder = temporaryFolder();
const parent = generateRun();
const archiveOf = ({ events }: GeneratedRun) => ({ events, beacons: [] });
const options = { open: async () => archiveOf(parent) };
const at = { run: parent.run, author: parent.spec.author, relays: ['wss://relay.example.org'] };

async function forkAt(rounds: number, change: object = {}) {
  const { outcome, root, first, params } = await forkPointOf({ ...at, rounds }, options);
  const lineage = { ...at, rounds, outcome, root, first, ...change };
  const spec = certifiedSpec({ features: ['fork'], parent: lineage, training: { rounds: 2 } });
  return { spec, values: Float32Array.from(params.values) };
}

describe('a fork', () => {
  it('N-65: starts from the state after any round of its parent, which replay rebuilds', async () => {
    for (const rounds of [1, 4, 7]) {
      const point = await forkPointOf({ ...at, rounds }, options);
      expect(point.root).toBe(parent.rounds[rounds - 1]!.modelRoot);
      expect(point.outcome).toBe(parent.rounds[rounds - 1]!.digest);
    }
  });

  it('N-65: is replayed from its parent: the roots of both follow from the events', async () => {
    const { spec, values } = await forkAt(3);
    const child = generateRun([{}, {}], spec, [], undefined, undefined, values);
    const first = (of: typeof spec) => firstOfFork(of, options);
    const report = await replayRun(archiveOf(child), { first });
    expect(report).toMatchObject({ ok: true, rounds: 2, modelRoot: child.state.modelRoot });
    // without the parent votes are checked and the model is not
    expect(await replayRun(archiveOf(child))).toMatchObject({
      ok: false,
      rounds: 2,
      firstBad: null,
    });
  });

  it('N-65: that names a false root, outcome, first state or round is refused', async () => {
    const lies = [{ root: 'd'.repeat(64) }, { first: 'd'.repeat(64) }, { outcome: 'd'.repeat(64) }];
    for (const lie of [...lies, { rounds: 4 }, { rounds: 8 }]) {
      const { spec } = await forkAt(3, lie);
      await expect(firstOfFork(spec, options)).rejects.toMatchObject({ code: 'fork/parent' });
    }
  });

  it('N-65: of a fork is rebuilt too, up to eight generations', async () => {
    const { spec, values } = await forkAt(2);
    const child = generateRun([{}, {}], spec, [], undefined, undefined, values);
    const runs = new Map([parent, child].map((each) => [each.run, each]));
    const open = async ({ run }: { readonly run: string }) => archiveOf(runs.get(run)!);
    const point = await forkPointOf({ ...at, run: child.run, rounds: 1 }, { open });
    expect(point.root).toBe(child.rounds[0]!.modelRoot);
    const deep = forkPointOf({ ...at, run: child.run, rounds: 1 }, { open }, 8);
    await expect(deep).rejects.toMatchObject({ code: 'fork/parent' });
  });
});

describe('nostrain run fork', () => {
  it('N-65: writes and publishes the spec, and lists and replay know its lineage', async () => {
    const relay = await createRelay();
    await publishRaw(relay.url, parent.events);
    const output = inFolder('child.json');
    const key = ['--sec-key', toHex(new Uint8Array(32).fill(1))];
    const naddr = encodeRunAddress({ run: parent.run, author: at.author, relays: [relay.url] });
    const naming = [naddr, '--relay', relay.url, '--at', '3', ...key];
    const made = await runCommand('run', 'fork', ...naming, '--rounds', '2', '-o', output);
    expect(made.exitCode, made.stderr).toBe(0);
    const spec = JSON.parse(await readFile(output, 'utf8'));
    const { digest, modelRoot } = parent.rounds[2]!;
    expect(spec.parent).toMatchObject({
      run: parent.run,
      rounds: 3,
      outcome: digest,
      root: modelRoot,
    });
    expect(spec).toMatchObject({ name: 'made up fork', author: signerOf(1).publicKey });
    const listed = await runCommand('run', 'list', '--relay', relay.url);
    expect(listed.stdout).toMatch(/^made up: [\s\S]*\n {2}made up fork: /);
    expect(listed.stdout).toContain(`goes on from run ${parent.run} after 3 rounds`);
    const values = (await forkPointOf({ ...at, rounds: 3 }, options)).params.values;
    const readable = certifiedSpec({ ...spec, founders: certifiedSpec().founders });
    const child = generateRun(
      [{}, {}],
      readable,
      [],
      undefined,
      undefined,
      Float32Array.from(values),
    );
    const [events, parents] = [inFolder('child.jsonl'), inFolder('parent.jsonl')];
    await writeFile(events, formatArchive(archiveOf(child)));
    await writeFile(parents, formatArchive(archiveOf(parent)));
    const replayed = await runCommand('replay', '--events', events, '--parent', parents);
    expect(replayed.stdout, replayed.stderr).toContain('ok: 2 rounds, all recomputed in full');
    await relay.close();
  });
});
