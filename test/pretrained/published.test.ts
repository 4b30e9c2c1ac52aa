/** Published models: the same numbers, names and token ids as the programs that made the files, and refusals by name. */

import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openPretrained } from 'nostrain/formats';
import { openLocalModel } from 'nostrain/node/parts';
import { encodeSafetensors } from 'nostrain/tensor';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTokenizer, readGgufTokenizer } from '../../src/pretrained/tokenizer.ts';
import {
  dequantize,
  type ModelFiles,
  quantizedFormats,
  sourceOf,
} from '../../src/pretrained/weights.ts';
import { readWeights } from '../support/read-weights.ts';

interface Fixture {
  readonly blocks: readonly { type: number; name: string; bytes: string; values: string }[];
  readonly tiny: { file: string; tensors: Record<string, string> };
  readonly tokenizers: Record<
    string,
    { tokens: string[]; merges: string[]; text: string; ids: number[] }
  >;
}

const fixture = JSON.parse(
  readFileSync(new URL('../vectors/published.json', import.meta.url), 'utf8'),
) as Fixture;
const digits = JSON.parse(
  readFileSync(new URL('../vectors/digits.json', import.meta.url), 'utf8'),
) as { text: string; cases: readonly { tokenizer: object; ids: number[] }[] };
const bytesOf = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
const floatsOf = (text: string): Float32Array => new Float32Array(bytesOf(text).buffer);
const gguf = bytesOf(fixture.tiny.file);

const filesOf = (files: Record<string, Uint8Array | object>): ModelFiles => ({
  name: 'a model',
  open: (file) => {
    const content = files[file];
    if (content === undefined) return Promise.resolve(undefined);
    const isBytes = content instanceof Uint8Array;
    const bytes = isBytes ? content : new TextEncoder().encode(JSON.stringify(content));
    return Promise.resolve(sourceOf(file, bytes));
  },
});
const openTiny = (file: Uint8Array) =>
  openPretrained(filesOf({ 'tiny.gguf': file }), { gguf: 'tiny.gguf', context: 16 });

describe('the number formats of GGUF files', () => {
  it.each(fixture.blocks)('reads $name as gguf-py does', ({ type, bytes, values }) => {
    const read = dequantize(quantizedFormats.get(type)!, bytesOf(bytes));
    expect(read).toEqual(floatsOf(values));
  });
});

describe('a GGUF file', () => {
  it('is the published model: names, shapes, and the rows of queries and keys in their order', async () => {
    const model = await openTiny(gguf);
    expect(model.spec).toMatchObject({ architecture: 'llama', width: 32, layers: 1, tied: true });
    const weights = await readWeights(model);
    expect([...weights.keys()].sort()).toEqual(Object.keys(fixture.tiny.tensors).sort());
    for (const [name, values] of Object.entries(fixture.tiny.tensors)) {
      expect(weights.get(name), name).toEqual(floatsOf(values));
    }
  });

  it('cut short, of another family, or of an unknown number format is refused by name', async () => {
    await expect(openTiny(gguf.slice(0, gguf.length - 40))).rejects.toThrow(/ends at byte/);
    await expect(openTiny(gguf.slice(0, 200))).rejects.toMatchObject({ code: 'model/gguf' });
    await expect(openTiny(new Uint8Array(64))).rejects.toMatchObject({ code: 'model/gguf' });
    const other = new Uint8Array(gguf);
    other.set(new TextEncoder().encode('mamba'), Buffer.from(gguf).indexOf('llama'));
    await expect(openTiny(other)).rejects.toThrow(/holds a mamba model/);
    const strange = new Uint8Array(gguf);
    const at = Buffer.from(gguf).indexOf('blk.0.attn_v.weight') + 'blk.0.attn_v.weight'.length;
    strange[at + 4 + 16] = 99;
    await expect(openTiny(strange)).rejects.toThrow(/attn_v.*number format 99/);
  });
});

describe('a folder of safetensors', () => {
  const tensors = Object.entries(fixture.tiny.tensors).map(([name, values]) => ({
    name,
    values: floatsOf(values),
  }));
  let config: Record<string, unknown> = {};
  let shapes: ReadonlyMap<string, readonly number[]> = new Map();
  let tokenizer: object = {};

  beforeAll(async () => {
    const model = await openTiny(gguf);
    config = { ...model.config };
    shapes = new Map([...model.tensors].map(([name, { shape }]) => [name, shape] as const));
    tokenizer = model.tokenizerFiles.tokenizer;
  });

  const file = (
    change: (name: string, values: Float32Array) => Float32Array | undefined = (_, values) =>
      values,
    extra: { name: string; shape: number[]; values: Float32Array }[] = [],
  ) =>
    encodeSafetensors({
      tensors: [
        ...tensors.flatMap(({ name, values }) => {
          const changed = change(name, values);
          return changed ? [{ name, shape: shapes.get(name)!, values: changed }] : [];
        }),
        ...extra,
      ],
      metadata: {},
    });
  const folder = (weights: Uint8Array, changes: Record<string, unknown> = {}) =>
    filesOf({
      'config.json': { ...config, ...changes },
      'tokenizer.json': tokenizer,
      'model.safetensors': weights,
    });

  it('holds the same model as the GGUF file, in one file or in shards', async () => {
    const one = await readWeights(await openPretrained(folder(file()), { context: 16 }));
    const isFirst = (name: string) => name < 'model.layers.0.mlp';
    const sharded = filesOf({
      'config.json': config,
      'tokenizer.json': tokenizer,
      'model.safetensors.index.json': {
        weight_map: Object.fromEntries(
          [...shapes.keys()].map((name) => [name, `${isFirst(name) ? 'a' : 'b'}.safetensors`]),
        ),
      },
      'a.safetensors': file((name, values) => (isFirst(name) ? values : undefined)),
      'b.safetensors': file((name, values) => (isFirst(name) ? undefined : values)),
    });
    const model = await openPretrained(sharded, { context: 16 });
    expect(model.files).toEqual([
      'config.json',
      'tokenizer.json',
      'a.safetensors',
      'b.safetensors',
    ]);
    const two = await readWeights(model);
    expect(new Map([...two].sort())).toEqual(new Map([...one].sort()));
  });

  it('uses or names every tensor', async () => {
    const open = (weights: Uint8Array, changes?: Record<string, unknown>) =>
      openPretrained(folder(weights, changes), { context: 16 });
    const lacking = file((name, values) => (name.includes('v_proj') ? undefined : values));
    await expect(open(lacking)).rejects.toThrow(/lacks model\.layers\.0\.self_attn\.v_proj/);
    const score = { name: 'score.weight', shape: [2], values: new Float32Array(2) };
    await expect(open(file(undefined, [score]))).rejects.toThrow(
      /unexpected tensors: score\.weight/,
    );
    await expect(open(file(), { intermediate_size: 32 })).rejects.toThrow(/64 x 32.*32 x 32/);
    const table = { ...score, name: 'model.layers.0.self_attn.rotary_emb.inv_freq' };
    const head = { ...score, name: 'lm_head.weight' };
    const model = await open(file(undefined, [table, head]));
    expect(model.tensors.size).toBe(tensors.length);
  });

  it('leaves a context that is too long, a number that is none, and half a file to nobody', async () => {
    await expect(openPretrained(folder(file()), { context: 65 })).rejects.toThrow(/65 tokens/);
    const broken = file((name, values) =>
      name === 'model.norm.weight'
        ? values.map((value, i) => (i === 3 ? Number.NaN : value))
        : values,
    );
    const model = await openPretrained(folder(broken), { context: 16 });
    await expect(readWeights(model)).rejects.toThrow(/model\.norm\.weight holds NaN at 3/);
    const half = file().slice(0, 900);
    await expect(openPretrained(folder(half))).rejects.toMatchObject({ code: 'model/weights' });
    const small = openPretrained(folder(file(), { vocab_size: 39 }), { context: 16 });
    await expect(small).rejects.toMatchObject({ code: 'model/tokenizer' });
  });

  it('tells which file it lacks', async () => {
    const open = (files: Record<string, object>) => openPretrained(filesOf(files));
    await expect(open({})).rejects.toThrow(/no config\.json/);
    await expect(open({ 'config.json': config })).rejects.toThrow(/no model\.safetensors/);
    const index = { weight_map: { x: '../../etc/passwd' } };
    await expect(
      open({ 'config.json': config, 'model.safetensors.index.json': index }),
    ).rejects.toThrow(/weight_map/);
  });
});

describe('tokenizers of published models', () => {
  it.each(Object.entries(fixture.tokenizers))(
    'gives the ids of the Python tokenizers under %s',
    (pre, made) => {
      const metadata = new Map<string, unknown>([
        ['tokenizer.ggml.model', 'gpt2'],
        ['tokenizer.ggml.pre', pre],
        ['tokenizer.ggml.tokens', made.tokens],
        ['tokenizer.ggml.merges', made.merges],
        ['tokenizer.ggml.token_type', made.tokens.map((token) => (token === '<|end|>' ? 3 : 1))],
      ]);
      const files = readGgufTokenizer(metadata, 'a file');
      const tokenizer = createTokenizer(files, { name: pre, vocabulary: made.tokens.length });
      expect(tokenizer.ids(made.text)).toEqual(made.ids);
      const normal = pre === 'qwen2' ? made.text.normalize('NFC') : made.text;
      expect(tokenizer.decode(made.ids)).toBe(normal);
      const long = made.text.repeat(400);
      expect([...tokenizer.encode(long).tokens]).toEqual([...tokenizer.ids(long)]);
    },
  );

  it.each(digits.cases)('split all numeric characters of Unicode, case %#', (made) => {
    const tokenizer = createTokenizer(
      { tokenizer: made.tokenizer, config: {} },
      { name: 'digits', vocabulary: 400 },
    );
    expect(tokenizer.ids(digits.text)).toEqual(made.ids);
  });

  it.each(['normalizer', 'pre_tokenizer', 'decoder'])(
    'with an unknown pattern in the %s are refused before it runs',
    (part) => {
      const pattern = { Regex: '(\\p{L}+)+!' };
      const replace = { type: 'Replace', pattern, content: '' };
      const split = { type: 'Split', pattern, behavior: 'Isolated', invert: false };
      const rule =
        part === 'pre_tokenizer' ? { type: 'Sequence', pretokenizers: [split] } : replace;
      const tokenizer = { ...digits.cases[0]!.tokenizer, [part]: rule };
      const open = () =>
        createTokenizer({ tokenizer, config: {} }, { name: 'x', vocabulary: 400 }).ids(
          'a'.repeat(40),
        );
      expect(open).toThrow(/an unknown pattern: \(\\p\{L\}\+\)\+!/);
    },
  );

  it('of a kind that is not built here are refused by name', () => {
    const metadata = new Map([['tokenizer.ggml.model', 'llama']]);
    expect(() => readGgufTokenizer(metadata, 'a file')).toThrow(/the unsupported tokenizer llama/);
  });
});

describe('a model on disk', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nostrain-model-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('is a folder or a .gguf file', async () => {
    const path = join(folder, 'tiny.gguf');
    await writeFile(path, gguf);
    const model = await openLocalModel(path, { context: 16 });
    expect(model.files).toEqual(['tiny.gguf']);
    await expect(openLocalModel(folder)).rejects.toThrow(/no config\.json/);
    await expect(openLocalModel(join(folder, 'nothing'))).rejects.toMatchObject({
      code: 'model/files',
    });
  });
});
