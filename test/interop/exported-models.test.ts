/** Exported models in the programs they are for: PEFT, transformers and gguf-py write the same text and have the same losses. */

import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { adapterFiles, modelFiles, outFile } from 'nostrain/formats';
import { exportTiers, openLocalModel, tierFolder, writeFolder } from 'nostrain/node/parts';
import { encodeSafetensors } from 'nostrain/tensor';
import { expect, it } from 'vitest';
import { writeFile } from '../../src/node/pretrained/model-files.ts';
import { ggufFile } from '../../src/pretrained/export/gguf.ts';
import { runCommand } from '../support/command-line.ts';
import { adaptedCases, learn } from '../support/learned.ts';
import { describeWith, itWith, type Missing } from '../support/needs.ts';
import { temporaryFolder } from '../support/processes.ts';
import { readWeights } from '../support/read-weights.ts';
import { smolLM2, smolLM2Missing } from '../support/smollm2.ts';
import { writeTunedRun } from '../support/tuned-run.ts';
import { readVectors } from '../support/vectors.ts';

const home = temporaryFolder();
const python = process.env.NOSTRAIN_TORCH;
const pythonMissing: Missing =
  python === undefined
    ? 'NOSTRAIN_TORCH names no Python with torch, transformers, peft and gguf'
    : undefined;
const script = fileURLToPath(new URL('exported/read.py', import.meta.url));
const MINUTES = 10 * 60_000;

interface ModelFacts {
  readonly tokens: readonly number[];
  readonly loss: number;
  readonly ids?: readonly number[];
  readonly tensors?: number;
  readonly architecture?: string;
}

type Read = Readonly<Record<'peft' | 'merged' | 'gguf', ModelFacts>>;

/** All at once: loading the programs takes longest. */
async function read(asked: readonly object[]): Promise<readonly Read[]> {
  const options = { maxBuffer: 1 << 26, env: { ...process.env, OMP_NUM_THREADS: '1' } };
  const answer = promisify(execFile)(python!, [script], options);
  answer.child.stdin!.end(JSON.stringify(asked));
  return JSON.parse((await answer).stdout);
}

const fixtures = readVectors<{
  cases: readonly { readonly loss: number; readonly batch: number; readonly context: number }[];
}>('lora.json').cases;
const { adapters: greedy } = readVectors<{
  adapters: readonly { readonly prompt: readonly number[]; readonly tokens: readonly number[] }[];
}>('greedy.json');
const texts = adaptedCases.map((one, at) => ({ ...one, ...fixtures[at]!, ...greedy[at]! }));

/** A GGUF file cannot say that activation. */
const isSayable = (name: string) => !name.includes('relu');

/** Writes the base and what was learned in every form, and says what is to be found of it. */
async function exportText(one: (typeof texts)[number]): Promise<object> {
  const { batch, context, prompt, tokens, config, name } = one;
  const learned = await learn(one);
  const dir = join(home, name.replace(/\W+/g, '-'));
  const [base, peft, merged, gguf] = ['base', 'peft', 'merged', 'tiny.gguf'].map((part) =>
    join(dir, part),
  ) as [string, string, string, string];
  await mkdir(dir);
  await writeFolder(base, learned.base);
  await writeFolder(peft, adapterFiles(learned, learned.adapter!, base));
  await writeFolder(merged, modelFiles(learned, 'f32'));
  if (isSayable(name)) await writeFile(gguf, ggufFile(learned, 'f32', 'tiny'));
  const window = Array.from({ length: batch }, () =>
    Array.from({ length: context + 1 }, () => learned.next() % Number(config.vocab_size)),
  );
  const forms = { base, peft, merged, ...(isSayable(name) && { gguf }) };
  const borrows = /biases|gpt2/.test(name);
  return { ...forms, borrows, prompt, window, length: tokens.length, text: '\u0001\u0002!"' };
}

describeWith(pythonMissing)('exported models', () => {
  it('of every family are the same to other programs', { timeout: MINUTES }, async () => {
    const told = await read(await Promise.all(texts.map(exportText)));
    for (const [at, { name, tokens, loss }] of texts.entries()) {
      const found = Object.entries(told[at]!);
      expect(found.length, name).toBe(isSayable(name) ? 3 : 2);
      for (const [form, own] of found) {
        const words = `${name} as ${form}`;
        expect(own.tokens, words).toEqual(tokens);
        expect(own.loss, words).toBeCloseTo(loss, 5);
        if (own.ids) expect(own.ids, words).toEqual([1, 2, 33, 34]);
      }
    }
  });

  itWith(smolLM2Missing)(
    'of SmolLM2 write the text that nostrain sample writes',
    async () => {
      const { dir, base } = await writeTunedRun(join(home, 'tuned'), smolLM2, {}, 0.02);
      const [peft, merged, gguf] = [join(home, 'p'), join(home, 'm'), join(home, 'tuned.gguf')];
      const flags = ['--peft', peft, '--merged', merged, '--gguf', gguf];
      expect(await runCommand('model', 'export', dir, ...flags)).toMatchObject({ exitCode: 0 });
      const text = 'The moon is ';
      const length = 24;
      const drawn = ['--prompt', text, '--length', `${length}`, '--temperature', '0'];
      const { stdout } = await runCommand('sample', dir, ...drawn);
      const prompt = base.tokenizer.ids(text);
      const window = [base.tokenizer.ids('It was a dark and stormy night; the rain fell.')];
      const forms = { base: smolLM2, peft, merged, gguf };
      const [told] = await read([{ ...forms, prompt, window, length, text }]);
      expect(told!.gguf).toMatchObject({ tensors: 272, architecture: 'llama' });
      for (const { tokens, loss, ids } of Object.values(told!)) {
        expect(`${text}${base.tokenizer.decode(tokens)}\n`).toBe(stdout);
        expect(loss).toBeCloseTo(told!.peft.loss, 4);
        if (ids) expect(ids).toEqual(prompt);
      }
    },
    { timeout: MINUTES },
  );

  it(
    'tiers of a model are what the whole one is with everything beyond their width at zero',
    async () => {
      const { batch, context, prompt, tokens, ...one } = texts.find(({ name }) =>
        name.startsWith('llama'),
      )!;
      const { base } = await learn({ ...one, adapter: undefined as never });
      const [whole, masked] = [join(home, 'whole'), join(home, 'masked')];
      await writeFolder(whole, base);
      await exportTiers(whole, [1, 2], { signal: new AbortController().signal });
      const { pretrained } = await learn({ ...one, adapter: undefined as never });
      const width = Number(one.config.intermediate_size);
      const tensors = [];
      for (const [name, { shape, read: values }] of pretrained.tensors) {
        const columns = shape.at(-1)!;
        const isOver = (i: number) =>
          /gate_proj|up_proj/.test(name)
            ? Math.floor(i / (shape.length > 1 ? columns : 1)) >= width / 2
            : /down_proj\.weight/.test(name) && i % columns >= width / 2;
        tensors.push({
          name,
          shape,
          values: (await values()).map((each, i) => (isOver(i) ? 0 : each)),
        });
      }
      const weights = outFile('model.safetensors', encodeSafetensors({ tensors, metadata: {} }));
      await writeFolder(masked, [...base.filter(({ name }) => name !== weights.name), weights]);
      const window = Array.from({ length: batch }, () =>
        Array.from({ length: context }, (_, i) => (i * 5) % 36),
      );
      const asked = { base: whole, prompt, window, length: tokens.length, text: '!' };
      const told = await read(
        [tierFolder(whole, 1), masked, tierFolder(whole, 2)].map((merged) => ({
          ...asked,
          merged,
        })),
      );
      const [slice, zeroed, quarter] = told.map(({ merged }) => merged);
      expect(slice!.tokens).toEqual(zeroed!.tokens);
      expect(slice!.loss).toBeCloseTo(zeroed!.loss, 6);
      expect(quarter!.loss).not.toBeCloseTo(slice!.loss, 6);
    },
    MINUTES,
  );

  itWith(smolLM2Missing)(
    'tiers of SmolLM2 load with half and a quarter of its width',
    async () => {
      const pretrained = await openLocalModel(smolLM2);
      const weights = await readWeights(pretrained);
      const learned = {
        pretrained,
        adapter: undefined,
        valuesOf: (name: string) => weights.get(name)!,
      };
      const whole = join(home, 'smollm2');
      await writeFolder(whole, modelFiles(learned, 'bf16'));
      await exportTiers(whole, [1, 2], { signal: new AbortController().signal });
      const window = [pretrained.tokenizer.ids('It was a dark and stormy night; the rain fell.')];
      const asked = { base: whole, prompt: window[0], window, length: 4, text: 'The moon is ' };
      const forms = [whole, tierFolder(whole, 1), tierFolder(whole, 2)];
      const told = await read(forms.map((merged) => ({ ...asked, merged })));
      const losses = told.map(({ merged }) => merged.loss);
      // nobody trained its halves to work alone
      expect(losses[0]).toBeLessThan(Math.min(losses[1]!, losses[2]!));
      for (const { merged } of told) expect(merged.ids).toEqual(told[0]!.merged.ids);
      const shapes = [1536, 768, 384].entries();
      for (const [tier, width] of shapes) {
        const folder = tier === 0 ? whole : tierFolder(whole, tier);
        const { spec } = await openLocalModel(folder);
        expect(spec.ffn).toBe(width);
      }
    },
    { timeout: MINUTES },
  );
});
