/**
 * The published model that a run starts from, for settings, heartbeats and specs: its files, the shape of the model,
 * and what is trained. The spec is enough to lay out the parameters; training needs the files.
 */

import { toHex } from '../../base/bytes.ts';
import { canonicalJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { hashFields } from '../../base/hash.ts';
import { isHash, isObject, isText, listOf, type Untyped } from '../../base/shape.ts';
import { type Group, hash, reading, row, type Values, whole } from '../field.ts';
import type { Digest } from '../ids.ts';
import { fields } from '../options.ts';
import type { AdapterName, Settings } from '../settings.ts';
import { type ImportedShape, readImportedShape } from './imported-shape.ts';
import {
  bias,
  type DecoderSpec,
  type Gpt2Spec,
  type LlamaSpec,
  MOST_TIERS,
  ropeBase,
  ropeScalings,
  shapes,
} from './model-spec.ts';
import { memberOf, objectOf, readFields, readGroup, refuseUnknown, wrong } from './spec-readers.ts';

/** A file, identified by its contents. */
export type BaseFile = Values<typeof fileFields>;

/** Identity of a published model: equal identities mean equal weights and tokens. */
export interface BaseIdentity {
  /** In the order in which the model names them. */
  readonly files: readonly BaseFile[];
  /** Hash of everything that turns text into tokens, in whichever file it is. */
  readonly tokenizerSha256: Digest;
}

/** A decoder without its context length, which is a setting. */
export type BaseShape = Omit<LlamaSpec, 'context'> | Omit<Gpt2Spec, 'context'>;

/** The section `start` of a run spec. */
export interface Start extends BaseIdentity {
  /** Sources of the files. They are hints: downloads are verified against the hashes. */
  readonly from: readonly string[];
  readonly model: BaseShape | ImportedShape;
  /** What is trained: adapters, or all parameters if the rank is 0. */
  readonly adapter: Pick<Settings, AdapterName> & { readonly adapterTrain: 'both' };
  /** In a run with tiers: SHA-256 of the base weights in each slice, independent of the files. */
  readonly rings?: readonly Digest[];
  /**
   * Model root of round 0 if all parameters are trained, one per slice in a run with tiers; null with adapters, which
   * start from the seed.
   */
  readonly root: Digest | readonly Digest[] | null;
}

/** Returns which part of a model a file is: its name; .gguf and .onnx files are complete models with any name. */
export const partOf = (name: string): string => /\.(?:gguf|onnx)$/.exec(name)?.[0] ?? name;

/** Returns one hash that identifies the model. */
export const hashBase = ({ files, tokenizerSha256 }: BaseIdentity): Digest => {
  const named = files.map(({ name, bytes, sha256 }) => ({ name: partOf(name), bytes, sha256 }));
  return toHex(hashFields('nostrain/base', canonicalJson(named), tokenizerSha256));
};

/** Returns the decoder of a start for this context length in tokens. Throws a ConfigError if it is no decoder. */
export function decoderIn({ model }: Pick<Start, 'model'>, context: number): DecoderSpec {
  if (model.architecture !== 'onnx') return { ...model, context };
  throw new ConfigError('base/onnx', 'the run starts from an .onnx file, not from a decoder', {
    hint: 'join it with `nostrain run join`',
  });
}

/** Returns the shape of a decoder. */
export const shapeOf = ({ context: _, ...shape }: DecoderSpec): BaseShape => shape;

const MOST_FILES = 1024;
const MOST_HINTS = 8;
const LONGEST_HINT = 300;

const window = {
  window: row('attention window in tokens, including the current one', whole(1, 2 ** 31)),
};

const NAME = /^(?!\.{1,2}$)[^/\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,200}$/u;

/** Fields of one file of a base. */
export const fileFields = {
  name: row(
    'name in its folder',
    reading('a file name', (value) =>
      typeof value === 'string' && NAME.test(value) && value.isWellFormed() ? value : undefined,
    ),
  ),
  bytes: row('length', whole(1)),
  sha256: row('SHA-256 of its bytes', hash()),
} as const satisfies Group;

/** Fields for what is trained of a base, in settings and specs. */
export const adapterFields = {
  rank: fields.rank,
  alpha: fields.alpha,
  targets: fields.targets,
  adapterTrain: row(
    'matrices of the adapters that are trained',
    reading(
      'both; a run with another value needs nostrain 0.1.0, or must be created anew',
      (value) => (value === 'both' ? value : undefined),
    ),
  ),
} as const satisfies Group & { readonly [K in AdapterName]: Group[string] };

const NAMES = ['files', 'tokenizerSha256', 'from', 'model', 'adapter', 'root'];
const WITH_TIERS = [...NAMES, 'rings'];

/** Reads the section `start` of a spec. Throws a ConfigError with the path of the invalid value. */
export function readStart(spec: Untyped): Start {
  const start = objectOf(spec, 'start', NAMES);
  refuseUnknown(start, WITH_TIERS, 'start.');
  const hasSliceHashes = Object.hasOwn(start, 'rings');
  const trained = readGroup(start, 'adapter', adapterFields, 'start.');
  return {
    ...readIdentity(start),
    from: readHints(memberOf(start, 'from', 'start.', HINTS)),
    model: readShape(objectOf(start, 'model', ['architecture'], 'start.')),
    adapter: trained,
    ...(hasSliceHashes && { rings: readDigests(start, 'rings') }),
    root: readRoot(start, trained.rank, hasSliceHashes),
  };
}

/** Reads the identity of a published model, from a spec or a worker folder. */
export function readIdentity(start: Untyped): BaseIdentity {
  const tokenizer = { tokenizerSha256: fileFields.sha256 };
  return {
    files: readFiles(memberOf(start, 'files', 'start.', FILES), fileFields, 'start.files'),
    ...readFields(start, tokenizer, 'start.'),
  };
}

function readRoot(start: Untyped, rank: number, hasSliceHashes: boolean): Start['root'] {
  if (rank === 0 && hasSliceHashes) return readDigests(start, 'root');
  if (rank === 0) return readFields(start, { root: fileFields.sha256 }, 'start.').root;
  const root = memberOf(start, 'root', 'start.', 'null with adapters');
  if (root === null) return null;
  throw wrong('start.root', root, 'null with adapters: they start from the seed');
}

const DIGESTS = `a list of 2 to ${MOST_TIERS + 1} times 64 lowercase hex digits, one per slice`;

function readDigests(start: Untyped, name: 'rings' | 'root'): readonly Digest[] {
  const list = memberOf(start, name, 'start.', DIGESTS);
  if (listOf(isHash, MOST_TIERS + 1, 2)(list)) return list;
  throw wrong(`start.${name}`, list, DIGESTS);
}

export const FILES = `a list of 1 to ${MOST_FILES} files, each once`;

/** Reads a list of files with the fields of a table, `name` among them. */
export function readFiles<G extends Group & Pick<typeof fileFields, 'name'>>(
  value: unknown,
  group: G,
  at: string,
): readonly Values<G>[] {
  if (!Array.isArray(value) || value.length < 1 || value.length > MOST_FILES)
    throw wrong(at, value, FILES);
  const files = value.map((file, i) => readGroup({ [i]: file }, String(i), group, `${at}.`));
  if (new Set(files.map(({ name }) => name)).size === files.length) return files;
  throw wrong(at, value, FILES);
}

const HINTS = `a list of at most ${MOST_HINTS} texts`;

function readHints(value: unknown): readonly string[] {
  const isHint = (each: unknown): each is string =>
    isText(each) && /^[\x21-\x7e]+$/.test(each) && each.length <= LONGEST_HINT;
  if (listOf(isHint, MOST_HINTS)(value)) return value;
  throw wrong('start.from', value, HINTS);
}

function readShape(model: Untyped): Start['model'] {
  const { architecture, ...rest } = model;
  if (architecture === 'gpt2') {
    refuseUnknown(rest, Object.keys(shapes.gpt2), AT);
    return { architecture, ...readFields(rest, shapes.gpt2, AT) };
  }
  if (architecture === 'onnx') return readImportedShape(model);
  if (architecture !== 'llama') {
    throw wrong(`${AT}architecture`, architecture, 'llama, gpt2 or onnx');
  }
  refuseUnknown(rest, [...Object.keys(shapes.llama), 'rope', 'bias', 'window'], AT);
  const rope = objectOf(rest, 'rope', Object.keys(ropeBase), AT);
  refuseUnknown(rope, [...Object.keys(ropeBase), 'scaling'], `${AT}rope.`);
  return {
    architecture,
    ...readFields(rest, shapes.llama, AT),
    rope: { ...readFields(rope, ropeBase, `${AT}rope.`), ...readScaling(rope) },
    bias: readGroup(rest, 'bias', bias, AT),
    ...(Object.hasOwn(rest, 'window') ? readFields(rest, window, AT) : {}),
  };
}

const AT = 'start.model.';

/** Left out where positions reach no further than in pretraining. */
function readScaling(rope: Untyped): Pick<LlamaSpec['rope'], 'scaling'> {
  const { scaling } = rope;
  if (scaling === undefined) return {};
  const at = `${AT}rope.scaling.`;
  if (!isObject(scaling)) throw wrong(at.slice(0, -1), scaling, 'an object with a type');
  const { type, ...rest } = scaling;
  if (type !== 'linear' && type !== 'llama3') throw wrong(`${at}type`, type, 'linear or llama3');
  refuseUnknown(rest, Object.keys(ropeScalings[type]), at);
  return type === 'linear'
    ? { scaling: { type, ...readFields(rest, ropeScalings.linear, at) } }
    : { scaling: { type, ...readFields(rest, ropeScalings.llama3, at) } };
}

/** Throws a ConfigError (`base/other`) that names the first file by which a base is not the one of a run. */
export function assertSameBase(actual: BaseIdentity, wanted: BaseIdentity): void {
  for (const { name, bytes, sha256 } of wanted.files) {
    const same = actual.files.find((each) => partOf(each.name) === partOf(name));
    if (same === undefined) throw otherBase(`it has no ${name}`);
    if (same.sha256 === sha256) continue;
    const sizes = same.bytes === bytes ? '' : `${same.bytes} bytes, not ${bytes}; `;
    throw otherBase(`${name} differs: ${sizes}its SHA-256 is ${same.sha256}, not ${sha256}`);
  }
  const parts = new Set(wanted.files.map(({ name }) => partOf(name)));
  const extra = actual.files.find(({ name }) => !parts.has(partOf(name)));
  if (extra !== undefined) throw otherBase(`${extra.name} is not among the files of the run`);
  assertSameTokenizer(actual, wanted);
}

/** Throws a ConfigError (`base/other`) that names the tier whose numbers differ, for workers with slices of a base. */
export function assertSameSlices(
  actual: Pick<Start, 'rings' | 'tokenizerSha256'>,
  wanted: Pick<Start, 'rings' | 'tokenizerSha256'>,
): void {
  const sliceHashes = wanted.rings ?? [];
  actual.rings?.forEach((sha256, slice) => {
    if (sha256 === sliceHashes[slice]) return;
    const tier = sliceHashes.length - 1 - slice;
    throw otherBase(
      `the weights of tier ${tier} differ: their SHA-256 is ${sha256}, not ${sliceHashes[slice]}`,
    );
  });
  assertSameTokenizer(actual, wanted);
}

function assertSameTokenizer(
  actual: Pick<BaseIdentity, 'tokenizerSha256'>,
  wanted: Pick<BaseIdentity, 'tokenizerSha256'>,
): void {
  if (actual.tokenizerSha256 === wanted.tokenizerSha256) return;
  throw otherBase('its tokenizer differs (tokenizer_config.json or the template of chats)');
}

const otherBase = (why: string): ConfigError =>
  new ConfigError('base/other', `this base is not the one of the run: ${why}`, {
    hint: 'name the files that the run was made with (--base), all of them as they were published',
  });
