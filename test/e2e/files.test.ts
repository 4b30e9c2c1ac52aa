/** A joiner without the text and without the base: both come in chunks, the text from a relay and the base from a Blossom server, and it trains. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writePlay } from 'nostrain/model';
import { createRelay, type Relay } from 'nostrain/relay';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BlossomServer, startBlossomServer } from '../support/blossom-server.ts';
import { runProgram, temporaryFolder } from '../support/processes.ts';
import { writeTinyLlama } from '../support/tiny-llama.ts';

const home = temporaryFolder();
const here = temporaryFolder();
const at = (...names: readonly string[]) => join(here, ...names);
let relay: Relay;
let blossom: BlossomServer;
let digest = '';

const nostrain = (own: string, ...args: readonly string[]) => runProgram(args, own, here);
async function prints(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await nostrain(home, ...args);
  expect(code, stderr).toBe(0);
  return stdout;
}
const pack = async (file: string, out: string) =>
  /digest +(\w{64})/.exec(await prints('checkpoint', 'pack', file, '--out', at(out), '--chunk', '16k'))![1]!; // biome-ignore format: one line
const small = ['--rounds', '2', '--inner-steps', '2', '--context', '32', '--rank', '4'];

beforeAll(async () => {
  relay = await createRelay();
  blossom = await startBlossomServer();
  await writeTinyLlama(at('tiny'));
  writeFileSync(at('play.txt'), writePlay({ minimumBytes: 120_000 }));
  digest = await pack(at('play.txt'), 'play.chunks');
  await prints('checkpoint', 'push', at('play.chunks'), '--to', relay.url);
  for (const file of readdirSync(at('tiny'))) {
    await pack(at('tiny', file), `${file}.chunks`);
    await prints('checkpoint', 'push', at(`${file}.chunks`), '--to', blossom.url);
  }
}, 120_000);
afterAll(async () => {
  await relay.close();
  await blossom.close();
});

describe('training data and base models by the door of checkpoints', () => {
  it('a joiner that has neither trains from a relay and a Blossom server', async () => {
    const packed = ['play.txt', ...readdirSync(at('tiny'))].flatMap((file) => [
      '--packed',
      file === 'play.txt' ? at('play.chunks') : `${file}=${at(`${file}.chunks`)}`,
    ]);
    const named = ['--corpus', at('play.txt'), '--base', at('tiny')];
    const places = ['--packed-at', blossom.url, '--relay', relay.url, '--name', 'door'];
    const made = JSON.parse(await prints('run', 'create', ...named, ...small, ...packed, ...places, '--json')); // biome-ignore format: one line
    const inspected = JSON.parse(await prints('run', 'inspect', 'door.run.json', '--json'));
    expect(inspected.spec.features).toContain('files');
    // a stranger's word: nothing private is asked on it
    const other = temporaryFolder();
    const key = ['--key-file', join(home, 'key'), '--report', 'ndjson', '--device', 'cpu'];
    const refused = await nostrain(other, 'run', 'join', 'door.run.json', ...key);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain(`${blossom.url} is skipped: a private address`);
    expect(existsSync(join(other, 'models', 'model.safetensors'))).toBe(false);
    blossom.reads.count = 0;
    const joined = await nostrain(other, 'run', 'join', made.naddr, '--allow-private-relays', ...key); // biome-ignore format: one line
    expect(joined.code, joined.stderr).toBe(0);
    expect(blossom.reads.count).toBeGreaterThan(2);
    const done = joined.stdout.split('\n').find((line) => line.startsWith('{"type":"done"'));
    expect(JSON.parse(done!)).toMatchObject({ rounds: 2 });
    // again without any place: all of it is here
    await blossom.close();
    blossom = await startBlossomServer();
    const again = await nostrain(other, 'run', 'join', made.naddr, '--allow-private-relays', ...key); // biome-ignore format: one line
    expect(again.code, again.stderr).toBe(0);
  }, 240_000);

  it('run-training takes a text by the digest of its manifest, within a bound', async () => {
    const args = ['run-training', '--model', 'char-gpt', '--relay', relay.url, '--run', 'own'];
    const less = [
      ...[
        '--set',
        'width=16',
        '--set',
        'layers=1',
        '--set',
        'heads=1',
        '--context',
        '16',
        '--rounds',
        '1',
      ],
      ...[
        '--inner-steps',
        '1',
        '--set',
        'owners=0',
        '--set',
        'fragments=1',
        '--set',
        'packing=int8',
      ],
      ...['--set', 'residual=feedback', '--sync', 'strict:1'],
    ];
    const more = [...less, '--corpus', digest, '--report', 'ndjson', '--device', 'cpu'];
    const other = temporaryFolder();
    const bounded = await nostrain(other, ...args, ...more, '--most-download', '1000');
    expect(bounded.code).not.toBe(0);
    expect(bounded.stderr).toContain('checkpoint/too-large');
    const trained = await nostrain(other, ...args, ...more);
    expect(trained.code, trained.stderr).toBe(0);
    expect(readdirSync(join(other, 'corpora')).some((name) => name.endsWith('.chunks'))).toBe(false); // biome-ignore format: one line
  }, 120_000);
});
