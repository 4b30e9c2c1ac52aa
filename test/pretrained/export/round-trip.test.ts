/** What was learned leaves in the files of other programs and comes back through our own readers, number by number. */

import { adapterFiles, type Learned, modelFiles, openPretrained } from 'nostrain/formats';
import { loraTensors } from 'nostrain/model';
import { decodeSafetensors } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { folderTypes } from '../../../src/pretrained/export/folders.ts';
import { ggufFile } from '../../../src/pretrained/export/gguf.ts';
import {
  adaptedCases,
  type LearnedCase,
  learn,
  plainCases,
  tokenizerConfig,
} from '../../support/learned.ts';
import { bytesOf, filesFrom } from '../../support/out-files.ts';
import { readWeights } from '../../support/read-weights.ts';

const cases = [...plainCases, ...adaptedCases];

const errorOf = (actual: Float32Array, expected: Float32Array): number => {
  const norm = (values: readonly number[]) => Math.hypot(...values);
  return norm([...expected].map((value, i) => actual[i]! - value)) / norm([...expected]);
};

const isSayable = ({ name }: LearnedCase) => !/llama3|window|relu/.test(name);

describe('the same model is', () => {
  it.each(cases)('a folder with everything merged: $name', async (one) => {
    const learned = await learn(one);
    const files = await filesFrom(modelFiles(learned, 'f32'));
    const again = await openPretrained(files, { context: 8 });
    expect(again.spec).toEqual(learned.pretrained.spec);
    expect(await readWeights(again)).toEqual(learned.expected);
    expect(again.tokenizer.ids('\u0001\u0002')).toEqual(
      learned.pretrained.tokenizer.ids('\u0001\u0002'),
    );
    expect(again.chatTemplate).toBe(tokenizerConfig.chat_template);
    for (const [type, most] of [['f16', 5e-4] as const, ['bf16', 4e-3] as const]) {
      const small = await filesFrom(modelFiles(learned, type));
      const model = await openPretrained(small, { context: 8 });
      for (const [name, values] of await readWeights(model)) {
        expect(errorOf(values, learned.expected.get(name)!), name).toBeLessThan(most);
        expect(model.tensors.get(name)!.format).toBe(folderTypes[type].dtype.toLowerCase());
      }
    }
  });

  it.each(cases.filter(isSayable))('a GGUF file: $name', async (one) => {
    const learned = await learn(one);
    const open = async (type: 'f32' | 'f16' | 'q8_0') =>
      openPretrained(await filesFrom([ggufFile(learned, type, 'model.gguf')]), {
        ...{ gguf: 'model.gguf', context: 8 },
      });
    const exact = await open('f32');
    expect(await readWeights(exact)).toEqual(learned.expected);
    const { normEpsilon, deviation, ...spec } = exact.spec;
    expect(learned.pretrained.spec).toMatchObject(spec);
    expect(exact.tokenizer.ids('!"#<end>\u0001')).toEqual([33, 34, 35, 36, 1]);
    expect(exact.tokenizer.special).toEqual(new Set([36]));
    expect(exact.chatTemplate).toBe(tokenizerConfig.chat_template);
    expect(exact.tokenizerFiles.config).toMatchObject({ eos_token: '<end>' });
    for (const type of ['f16', 'q8_0'] as const) {
      const small = await open(type);
      for (const [name, values] of await readWeights(small)) {
        expect(errorOf(values, learned.expected.get(name)!), name).toBeLessThan(5e-3);
      }
      const formats = new Set([...small.tensors.values()].map(({ format }) => format));
      expect(formats.has('F16')).toBe(true);
    }
  });

  it.each(cases.filter((one) => !isSayable(one)))(
    'refused as a GGUF file, by what that cannot say: $name',
    async (one) => {
      const learned = await learn(one);
      expect(() => ggufFile(learned, 'f32', 'model.gguf')).toThrow(/cannot express/);
    },
  );

  it.each(adaptedCases)('an adapter for PEFT: $name', async (one) => {
    const learned = await learn(one);
    const { pretrained, adapter, valuesOf } = learned;
    const files = await filesFrom(adapterFiles(learned, adapter!, 'the/base'));
    const read = async (name: string) => {
      const source = (await files.open(name))!;
      return source.read(0, source.size);
    };
    const config = JSON.parse(new TextDecoder().decode(await read('adapter_config.json')));
    expect(config).toMatchObject({
      ...{ peft_type: 'LORA', r: adapter!.rank, lora_alpha: adapter!.alpha },
      base_model_name_or_path: 'the/base',
      fan_in_fan_out: pretrained.spec.architecture === 'gpt2',
    });
    const decoded = decodeSafetensors(await read('adapter_model.safetensors'));
    if (!decoded.ok) throw new TypeError(decoded.issue.message);
    const expected = loraTensors(pretrained.spec, adapter!);
    expect(decoded.value.tensors).toEqual(
      expected.map(({ name, shape }) => ({ name, shape, values: valuesOf(name) })),
    );
    const layers = expected.map(({ name }) => name.split('.lora_')[0]!.slice(17));
    expect(config.target_modules).toEqual([...new Set(layers)]);
  });
});

it('writes blocks of 8 bits as gguf-py does, and other rows in 16', async () => {
  const learned = await learn(cases[0]!);
  const [first, ...rest] = learned.pretrained.tensors;
  const values = Float32Array.from({ length: 64 }, (_, i) => Math.fround(Math.sin(i) / 3));
  const tensors = new Map([[first![0], { ...first![1], shape: [2, 32] }], ...rest]);
  const changed: Learned = {
    pretrained: { ...learned.pretrained, tensors },
    adapter: undefined,
    valuesOf: (name) => (name === first![0] ? values : learned.valuesOf(name)),
  };
  const bytes = await bytesOf(ggufFile(changed, 'q8_0', 'model.gguf'));
  // the bytes of gguf.quants.quantize(values.reshape(2, 32), GGMLQuantizationType.Q8_0)
  const expected =
    '6019006b7312a086dd537e34bb81bc357e53db86a113746aff958def617922ac83cd' +
    '6019467f43ca82ae267a5fec8c96026c73109e87df557d32b981be377e51d985a215';
  expect(Buffer.from(bytes).includes(Buffer.from(expected, 'hex'))).toBe(true);
});
