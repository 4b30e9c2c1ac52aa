/**
 * Certified runs from a published model: created, joined, replayed without and with its files, and refused with the
 * name of a wrong file.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { sha256Hex } from 'nostrain/base';
import { writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { parseRunSpec } from 'nostrain/run';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { endOf, keyFlags, programsOn } from '../../support/certified-programs.ts';
import { runProgram, temporaryFolder } from '../../support/processes.ts';
import { signerOf } from '../../support/signers.ts';
import { tinyTokenizer, writeTinyLlama } from '../../support/tiny-llama.ts';

const home = temporaryFolder();
const corpus = join(home, 'play.txt');
const base = join(home, 'tiny');
let relay: Relay;
const { joinRun, replay, killAll } = programsOn(() => relay, corpus);

beforeAll(async () => {
  relay = await createRelay();
  await writeTinyLlama(base);
  writeFileSync(corpus, writePlay({ minimumBytes: 40_000 }));
});
afterAll(async () => {
  killAll();
  await relay.close();
});

const COMMIT = 'c'.repeat(40);

/** A server with the hub's paths for the files of a folder. */
async function serveHub(folder: string) {
  const asked: string[] = [];
  const server = createServer(({ method, url: path = '' }, response) => {
    asked.push(path);
    const name = path.split(`/some/tiny/resolve/${COMMIT}/`)[1];
    const bytes = name && readdirSync(folder).includes(name) && readFileSync(join(folder, name));
    if (!bytes) return void response.writeHead(404).end();
    const etag = `"${sha256Hex(bytes)}"`;
    response.writeHead(200, { 'x-linked-etag': etag, 'content-length': bytes.length });
    response.end(method === 'HEAD' ? undefined : bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise<unknown>((resolve) => server.close(resolve));
  return { asked, url: `http://127.0.0.1:${port}`, close };
}

const SMALL = [
  ...['--rounds', '3', '--inner-steps', '4', '--context', '32', '--corpus', corpus],
  ...['--local-learning-rate', '0.01', '--set', 'committee.quorum=cft'],
  ...['--set', 'timing.graceMinMs=500', '--set', 'timing.viewMs=3000'],
];

/** Creates a run of workers 1 and 2; returns its file. */
async function create(name: string, ...flags: readonly string[]): Promise<string> {
  const file = join(home, `${name}.run.json`);
  const made = await runProgram([
    ...['run', 'create', '--base', base, '--name', name, '--relay', relay.url, '-o', file],
    ...['--founder', signerOf(2).publicKey, ...keyFlags(1), ...SMALL, ...flags],
    ...['--set', 'admission.kind=open'],
  ]);
  expect(made.stderr).not.toContain('error');
  return file;
}

describe('a certified run of a published model', { timeout: 180_000 }, () => {
  it.each([['adapters', ['--rank', '4']]])(
    '%s: two workers end in the same bits; a replay needs no base, and evaluates if it has one',
    async (name, flags) => {
      const file = await create(name, ...flags);
      const pair = [1, 2].map((number) => joinRun(number, file, '--base', base));
      const [one, two] = await Promise.all(pair.map(endOf));
      expect(one!.digest).toBe(two!.digest);
      expect(one!.rounds).toBe(3);

      const without = await replay(file);
      expect(without.stderr).toContain('the base is not needed');
      expect(without.stdout).toContain('ok: 3 rounds, all recomputed in full');
      const told = await replay(file, '--base', base, '--corpus', corpus, '--json');
      const report = JSON.parse(told.stdout);
      expect(report).toMatchObject({ ok: true, rounds: 3 });
      expect(report.evaluation.after).toBeLessThan(report.evaluation.before);
      expect(report.evaluation.after).toBeCloseTo(one!.validationLoss!, 5);
    },
  );

  it('all parameters: a replay checks the votes without the base, the model with it', async () => {
    const file = await create('whole', '--rank', '0', '--set', 'eventBudget=1000000');
    const pair = [1, 2].map((number) => joinRun(number, file, '--base', base));
    const [one, two] = await Promise.all(pair.map(endOf));
    expect(one!.digest).toBe(two!.digest);

    const without = await replay(file);
    expect(without.stderr).toContain('votes are checked but the model is not');
    expect(without.stdout).toContain('not checked in full: 0 of 3 rounds recomputed');
    const told = await replay(file, '--base', base, '--corpus', corpus);
    expect(told.stdout).toContain('ok: 3 rounds, all recomputed in full');
    expect(told.stdout).toMatch(/validation loss \S+ before/);
  });

  it('a newcomer without the files downloads them from the URL in the spec; an archive is replayed', async () => {
    const hub = await serveHub(base);
    const hint = `hf:some/tiny@${COMMIT}`;
    const file = await create(
      ...['newcomer', '--rank', '4', '--rounds', '5', '--inner-steps', '800'],
      ...['--base-from', hint, '--set', 'checkpoint.every=2', '--set', 'minAcceptPermille=0'],
    );
    expect(parseRunSpec(readFileSync(file, 'utf8')).start?.from).toEqual([hint]);
    const founders = [1, 2].map((number) => joinRun(number, file, '--base', base));
    await founders[0]!.event(({ type }) => type === 'round');
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HUB_CACHE', join(home, 'cache'));
    const newcomer = joinRun(3, file);
    vi.unstubAllEnvs();
    const [one, , three] = await Promise.all([...founders, newcomer].map(endOf));
    expect(three!.digest).toBe(one!.digest);
    expect(newcomer.output.stderr).toContain('downloading model.safetensors');
    expect(hub.asked).toContain(`/some/tiny/resolve/${COMMIT}/tokenizer.json`);
    await hub.close();

    const archive = join(home, 'newcomer.jsonl');
    const spec = ['--spec', file];
    const kept = await runProgram([
      ...['archive', ...spec, '--relay', relay.url, '--out', archive],
    ]);
    expect(kept.stderr).not.toContain('error');
    const { stdout } = await runProgram(['replay', ...spec, '--events', archive]);
    expect(stdout).toContain('ok: 5 rounds, all recomputed in full');
  });

  it('refuses a wrong base, a wrong tokenizer and a missing one by name, before training', async () => {
    const file = await create('refused', '--rank', '4');
    const { start } = parseRunSpec(readFileSync(file, 'utf8'));
    expect(start?.files.map(({ name }) => name)).toEqual([
      'config.json',
      'tokenizer.json',
      'model.safetensors',
    ]);
    const refused = async (...flags: readonly string[]) => {
      const program = joinRun(1, file, ...flags);
      expect(await program.exit).toBe(1);
      expect(program.events.some(({ type }) => type === 'hello')).toBe(false);
      return program.output.stderr;
    };
    const byte = await writeTinyLlama(join(home, 'byte'), {
      file: (bytes) => {
        const changed = Uint8Array.from(bytes);
        changed[changed.length - 1]! ^= 1;
        return changed;
      },
    });
    expect(await refused('--base', byte)).toMatch(/base\/other.*model\.safetensors differs/);
    const words = await writeTinyLlama(join(home, 'words'), { tokenizer: tinyTokenizer(['t h']) });
    expect(await refused('--base', words)).toMatch(/base\/other.*tokenizer\.json differs/);
    const short = await writeTinyLlama(join(home, 'short'), {
      file: (bytes) => bytes.subarray(0, bytes.length - 4),
    });
    expect(await refused('--base', short)).toMatch(/model\/weights/);
    expect(await refused()).toMatch(/base\/missing.*model\.safetensors/s);
  });
});
