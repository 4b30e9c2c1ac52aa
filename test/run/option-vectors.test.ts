/** Run specs, settings fingerprints and stored settings stay what earlier versions made: `test/vectors/options.json` was written by version 0.1.0. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeSpec, type NamedCorpus, type SpecRequest } from 'nostrain/certified';
import { packingFor } from 'nostrain/network';
import {
  canonicalSpec,
  combineSettings,
  parseRunSpec,
  presets,
  readSettings,
  readStart,
  runIdOf,
  settingsFingerprint,
  writeSettings,
} from 'nostrain/run';
import { createLayout } from 'nostrain/tensor';
import { encodeState, genesis, noMembers } from 'nostrain/worker';
import { describe, expect, it } from 'vitest';
import { agreeOnSettings, keptSettings } from '../../src/node/files/stored-settings.ts';
import { requestedModel } from '../../src/run/spec/presets.ts';
import { temporaryFolder } from '../support/processes.ts';

interface SpecCase {
  readonly name: string;
  readonly document: Record<string, unknown>;
  readonly training: Record<string, unknown>;
  readonly start?: Record<string, unknown>;
  readonly sizes?: NonNullable<NamedCorpus['sizes']>;
  readonly text: string;
  readonly id: string;
}

interface FingerprintCase {
  readonly name: string;
  readonly asked: Record<string, unknown>;
  readonly base?: { readonly files: never[]; readonly tokenizerSha256: string };
  readonly terms: unknown;
}

interface StoredCase {
  readonly name: string;
  readonly asked: Record<string, unknown>;
  readonly file: string;
}

interface Vectors {
  readonly me: string;
  readonly specs: readonly SpecCase[];
  readonly terms: readonly FingerprintCase[];
  readonly stored: readonly StoredCase[];
}

const file = join(import.meta.dirname, '../vectors/options.json');
const {
  me,
  specs,
  terms: fingerprints,
  stored,
}: Vectors = JSON.parse(await readFile(file, 'utf8'));

const settingsOf = (asked: Record<string, unknown>) => {
  const read = readSettings(asked, 'vector');
  const model = requestedModel(read)!;
  return combineSettings(presets[model], { run: 'winter', relay: ['ws://a'], ...read, model });
};

describe('a run spec', () => {
  it.each(specs)('$name', async ({ document, training, start, sizes, text, id }) => {
    const corpus = { sha256: 'cd'.repeat(32), bytes: 123_456, ...(sizes && { sizes }) };
    const request: SpecRequest = {
      document,
      training: readSettings(training, 'vector'),
      me,
      corpus: async () => corpus,
      ...(start && { start: async () => readStart({ start }) }),
    };
    const { spec } = await makeSpec(request);
    expect(canonicalSpec(spec)).toBe(text);
    expect(runIdOf(spec)).toBe(id);
    expect(canonicalSpec(parseRunSpec(text))).toBe(text);
  });
});

it('a spec with a removed packing keeps its id, but plays only in an older version', () => {
  const { text } = specs.find(({ name }) => name === 'char-gpt')!;
  const old = text.replace('"packing":"trellis"', '"packing":"rotated"');
  const spec = parseRunSpec(old);
  expect(canonicalSpec(spec)).toBe(old);
  expect(runIdOf(spec)).not.toBe(runIdOf(parseRunSpec(text)));
  const { packing, eventBudget } = spec.training;
  expect(() => packingFor({ run: 'r', packing, eventBudget }, { most: 204 })).toThrow(
    'rotated was removed; nostrain 0.1.0 still replays runs with it',
  );
  expect(() => readSettings({ packing: 'rotated' }, 'vector')).toThrow(
    expect.objectContaining({ hint: expect.stringContaining('use trellis') }),
  );
});

describe('the fingerprint of settings', () => {
  it.each(fingerprints)('$name', ({ asked, base, terms: expected }) => {
    const { settings, nonDefault: values, shard } = settingsFingerprint(settingsOf(asked), base);
    expect({ settings, asked: values, shard }).toEqual(expected);
  });
});

describe('a folder of an earlier version', () => {
  const isRemoved = ({ file }: StoredCase) => file.includes('"packing": "auto"');

  const folderWith = async (file: string) => {
    const dir = temporaryFolder();
    await mkdir(dir, { recursive: true });
    const layout = createLayout([{ name: 'w', shape: [2] }]);
    const state = genesis({ layout, values: new Float32Array(2) }, 1);
    await writeFile(join(dir, 'state.safetensors'), encodeState(state, noMembers));
    await writeFile(join(dir, 'settings.json'), file);
    return dir;
  };

  it.each(stored.filter(isRemoved))('$name, with a removed packing', async ({ file }) => {
    const dir = await folderWith(file);
    await expect(keptSettings(dir)).rejects.toMatchObject({
      message: expect.stringContaining('packing is "auto"'),
      hint: expect.stringContaining('auto was removed: use trellis'),
    });
  });

  it.each(stored.filter((each) => !isRemoved(each)))('$name', async ({ asked, file }) => {
    const dir = await folderWith(file);
    const settings = settingsOf(asked);
    expect(settings).toMatchObject(await keptSettings(dir));
    await agreeOnSettings(dir, JSON.parse(file));

    await agreeOnSettings(dir, writeSettings(settings));
  });
});
