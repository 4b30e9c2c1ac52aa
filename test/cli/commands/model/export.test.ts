/**
 * `nostrain model export`: what a run learned, written for other programs and read back by ours; what is refused, and
 * what is left behind.
 */

import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type SettingName, typedWords } from 'nostrain/run';
import { beforeAll, describe, expect, it } from 'vitest';
import { readSafetensorsHeader } from '../../../../src/tensor/safetensors.ts';
import { runCommand } from '../../../support/command-line.ts';
import { itWith } from '../../../support/needs.ts';
import { temporaryFolder } from '../../../support/processes.ts';
import { writeTinyLlama } from '../../../support/tiny-llama.ts';
import { type TunedRun, writeOwnRun, writeTunedRun } from '../../../support/tuned-run.ts';

const home = temporaryFolder();
const base = join(home, 'tiny');
const runs: Record<string, TunedRun> = {};
const at = (...names: string[]) => join(home, ...names);
const run = (name: string) => runs[name]!.dir;

beforeAll(async () => {
  await writeTinyLlama(base);
  for (const [name, asked] of [
    ['both', {}],
    ['all', { rank: 0 }],
    ['half', { ...tiered, tier: '1' }],
    ['half, all', { ...tiered, tier: '1', rank: 0 }],
    ['quarter', { ...tiered, tier: '2' }],
  ] as const) {
    runs[name] = await writeTunedRun(at(name), base, asked);
  }
});

const tiered = { tiers: 2, rank: 4, targets: 'all-linear' } as const;

const exported = (...argv: string[]) => runCommand('model', 'export', ...argv);
const sampled = async (...argv: string[]) => {
  const flags = ['--prompt', 'To be', '--length', '30', '--temperature', '0'];
  return (await runCommand('sample', ...argv, ...flags)).stdout;
};

const TIERED = ['half', 'half, all', 'quarter'];

describe('nostrain model export', () => {
  it.each(['both', 'all', ...TIERED])(
    'writes models that write the same text (%s)',
    async (name) => {
      const [folder, file] = [at(`${name}-merged`), at(`${name}.gguf`)];
      const done = await exported(run(name), '--merged', folder, '--gguf', file);
      const told = TIERED.includes(name) ? /loading the full model instead\n$/ : /^$/;
      expect(done).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(told) });
      expect(done.stdout).toContain(`${folder}: `);
      const text = await sampled(run(name));
      expect(text).toMatch(/^To be/);
      expect(text).not.toBe(await sampled('--base', base));
      expect(await sampled('--base', folder)).toBe(text);
      expect(await sampled('--base', file)).toBe(text);
    },
  );

  it('writes tiers in ordinary rows and columns, as narrow as they are', async () => {
    const folder = at('narrow');
    await exported(run('quarter'), '--merged', folder, '--peft', at('narrow-adapter'));
    const config = JSON.parse(await readFile(join(folder, 'config.json'), 'utf8'));
    const width = { intermediate_size: 12, matformer_base_intermediate_size: 48 };
    expect(config).toMatchObject({ ...width, matformer_tier: 2 });
    const weights = await readFile(at('narrow-adapter', 'adapter_model.safetensors'));
    const { shapes } = readSafetensorsHeader(weights.subarray(8, 8 + weights.readUInt32LE()))!;
    const layer = 'base_model.model.model.layers.0.mlp';
    expect(shapes.get(`${layer}.down_proj.lora_A.weight`)).toEqual([4, 12]);
    expect(shapes.get(`${layer}.up_proj.lora_B.weight`)).toEqual([12, 4]);
    const adapter = await readFile(at('narrow-adapter', 'adapter_config.json'), 'utf8');
    expect(JSON.parse(adapter).base_model_name_or_path).toBe(`${base}-tier2`);
  });

  it('writes a smaller tier of a run too, the same as its first part', async () => {
    const smaller = ['--tier', '2'];
    const text = await sampled(run('half'), ...smaller);
    expect(text).not.toBe(await sampled(run('half')));
    await exported(run('half'), '--merged', at('smaller'), ...smaller);
    expect(await sampled('--base', at('smaller'))).toBe(text);
    expect((await exported(run('half'), '--merged', at('x'), '--tier', '0')).stderr).toMatch(
      /base\/other.*too few tensors/,
    );
  });

  it('writes a model of our own as a state file that is sampled by its width', async () => {
    const asked = { width: 32, layers: 1, heads: 2, ffn: 64, context: 16 } as const;
    const flags = Object.entries(asked).flatMap(([name, value]) =>
      typedWords(name as SettingName, `${value}`),
    );
    const dir = await writeOwnRun(at('own'), { ...asked, tiers: 2, tier: '1' });
    const text = await sampled(dir);
    const file = at('own.safetensors');
    const done = await exported(dir, '--state', file);
    expect(done.stdout).toContain('--set ffn=32');
    expect(await sampled(file, ...flags, '--set', 'ffn=32')).toBe(text);
    const quarter = at('quarter.safetensors');
    await exported(dir, '--state', quarter, '--tier', '2');
    expect(await sampled(quarter, ...flags, '--set', 'ffn=16')).toBe(
      await sampled(dir, '--tier', '2'),
    );
    expect((await exported(dir, '--state', at('x'), '--merged', at('y'))).stderr).toMatch(
      /export\/unfit/,
    );
  });

  it('writes half as many bytes in 16 bits, and about a quarter in 8', async () => {
    const sizeOf = async (type: string) => {
      const file = at(`${type}-sized.gguf`);
      await exported(run('both'), '--gguf', file, '--dtype', type);
      return (await readFile(file)).length;
    };
    const [f32, f16, q8] = [await sizeOf('f32'), await sizeOf('f16'), await sizeOf('q8_0')];
    expect(f16 / f32).toBeCloseTo(0.5, 1);
    expect(q8 / f32).toBeLessThan(0.45);
  });

  it('writes the adapter with both matrices', async () => {
    await exported(run('both'), '--peft', at('adapter'));
    expect(readdirSync(at('adapter')).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    const config = JSON.parse(await readFile(at('adapter', 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({ base_model_name_or_path: base, r: 8, lora_alpha: 16 });
    const weights = await readFile(at('adapter', 'adapter_model.safetensors'), 'latin1');
    expect(weights.match(/lora_A\.weight/g)).toHaveLength(4);
  });

  it('refuses what cannot be, before it writes anything', async () => {
    const other = await writeTinyLlama(at('other'), { seed: 9 });
    const refused = async (...argv: string[]) => {
      const before = readdirSync(home).sort();
      const { exitCode, stdout, stderr } = await exported(...argv);
      expect(exitCode).toBeGreaterThan(0);
      expect(stdout).toBe('');
      expect(stderr).toMatch(/\n {2}try: /);
      expect(readdirSync(home).sort()).toEqual(before);
      return stderr;
    };
    expect(await refused(run('both'))).toMatch(/nothing to write/);
    expect(await refused(run('all'), '--peft', at('x'))).toMatch(/has no adapter/);
    expect(await refused(run('both'), '--merged', at('x'), '--dtype', 'q8_0')).toMatch(/q8_0/);
    expect(await refused(run('both'), '--gguf', at('x'), '--dtype', 'bf16')).toMatch(/bf16/);
    const wrong = ['--base', other, '--merged', at('x')];
    expect(await refused(run('both'), ...wrong)).toMatch(/base\/other/);
    const lost = ['--base', at('none'), '--merged', at('x')];
    expect(await refused(run('both'), ...lost)).toMatch(/model\/files/);
    expect(await refused('nobody', '--merged', at('x'))).toMatch(/run\/unknown/);
    // a folder with other files, and a second file that is in the way when the first could be written
    expect(await refused(run('both'), '--merged', base)).toMatch(/export\/exists.*has files/);
    const both = ['--merged', at('x'), '--gguf', join(base, 'config.json')];
    expect(await refused(run('both'), ...both)).toMatch(/export\/exists.*already exists/);
  });

  it('a run that began from nothing has no base', async () => {
    const state = at('all', 'state.safetensors');
    const done = await exported(state, '--merged', at('x'));
    expect(done.stderr).toMatch(/base\/none/);
  });

  it('writes into an empty folder, and over what an ended command left', async () => {
    await mkdir(at('empty'));
    await mkdir(at('empty.part'));
    await writeFile(at('empty.part', 'model.safetensors'), 'half');
    expect(await exported(run('both'), '--merged', at('empty'))).toMatchObject({ exitCode: 0 });
    expect(readdirSync(at('empty'))).toHaveLength(4);
    expect(existsSync(at('empty.part'))).toBe(false);
  });

  const fullMissing = existsSync('/dev/full') ? undefined : 'there is no /dev/full of Linux';
  itWith(fullMissing)('leaves nothing behind on a full disk', async () => {
    await symlink('/dev/full', at('full.gguf.part'));
    const done = await exported(run('both'), '--gguf', at('full.gguf'));
    expect(done.exitCode).toBe(1);
    expect(done.stderr).toMatch(/export\/write.*no space left.*\n {2}try: free disk space/);
    expect(existsSync(at('full.gguf'))).toBe(false);
    expect(existsSync(at('full.gguf.part'))).toBe(false);
  });
});
