/** Cuts a MatFormer tier out of a published model, either while reading its tensors or as new weight files. */
import { ConfigError, safeLine } from '../../base/errors.ts';
import { rangeAlong } from '../../model/architectures/slices.ts';
import { modelOf } from '../../model/architectures/table.ts';
import { bytesOf } from '../../tensor/dtype.ts';
import {
  type DescribedTensor,
  encodeSafetensorsHeader,
  type SafetensorsEntry,
} from '../../tensor/safetensors.ts';
import { jsonFile, type OutFile } from '../export/folders.ts';
import type { Pretrained } from '../pretrained.ts';
import {
  type ByteSource,
  INDEX,
  type ModelFiles,
  readFinite,
  readJson,
  readShard,
  SINGLE,
  type StoredTensor,
  weightFiles,
} from '../weights.ts';
import { configAt, tierOf, widthAt } from './tier.ts';

/** Returns the axis of a matrix that runs along the feed-forward width: rows (0) or columns (1). */
function sideOf(name: string): 0 | 1 | undefined {
  if (/(^|\.)mlp\.(gate|up)_proj\.(weight|bias)$/.test(name)) return 0;
  return /(^|\.)mlp\.down_proj\.weight$/.test(name) ? 1 : undefined;
}

/** A tensor, and its shape after the cut. */
interface Cut {
  readonly entry: SafetensorsEntry;
  readonly shape: readonly number[];
}

function cutOf(entry: SafetensorsEntry, tier: number, base: number): Cut {
  const side = sideOf(entry.name);
  if (side === undefined || entry.shape[side] === undefined) return { entry, shape: entry.shape };
  const name = safeLine(entry.name);
  if (entry.shape[side] !== base) {
    throw new ConfigError(
      'tiers/shape',
      `${name} is ${entry.shape.join(' x ')}, but config.json implies a width of ${base}`,
      { hint: 'use the config.json that was published with these weights' },
    );
  }
  const width = widthAt(base, tier, name);
  return { entry, shape: entry.shape.map((size, i) => (i === side ? width : size)) };
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((size, each) => size * each, 1);

/** Bytes read at a time. */
const PIECE = 4 << 20;

/** Yields the bytes of a tensor after the cut. */
async function* piecesOf(
  source: ByteSource,
  start: number,
  { entry, shape }: Cut,
): AsyncIterable<Uint8Array> {
  const width = bytesOf(entry.dtype);
  const [rows = 1] = shape;
  const isWhole = sizeOf(shape.slice(1)) === sizeOf(entry.shape.slice(1));
  if (isWhole) {
    const [from, to] = [start + entry.from, start + entry.from + sizeOf(shape) * width];
    for (let at = from; at < to; at += PIECE) yield source.read(at, Math.min(to, at + PIECE));
    return;
  }
  const [before, after] = [entry.shape[1]! * width, shape[1]! * width];
  const atOnce = Math.max(1, Math.floor(PIECE / before));
  for (let row = 0; row < rows; row += atOnce) {
    const count = Math.min(atOnce, rows - row);
    const from = start + entry.from + row * before;
    const read = await source.read(from, from + count * before);
    const kept = new Uint8Array(count * after);
    for (let i = 0; i < count; i++) {
      kept.set(read.subarray(i * before, i * before + after), i * after);
    }
    yield kept;
  }
}

interface CutShard {
  readonly file: OutFile;
  readonly bytes: number;
  /** Number of tensors that became smaller. */
  readonly cut: number;
}

async function cutShard(
  source: ByteSource,
  name: string,
  { tier, base }: { readonly tier: number; readonly base: number },
): Promise<CutShard> {
  const { entries, metadata, start } = await readShard(source);
  const cuts = entries.map((entry) => cutOf(entry, tier, base));
  const described = cuts.map(({ entry, shape }): DescribedTensor => {
    const dtype = entry.dtype.toUpperCase() as DescribedTensor['dtype'];
    return { name: entry.name, shape, dtype, bytes: sizeOf(shape) * bytesOf(entry.dtype) };
  });
  return {
    bytes: described.reduce((sum, { bytes }) => sum + bytes, 0),
    cut: cuts.filter(({ entry, shape }) => shape !== entry.shape).length,
    file: {
      name,
      async *pieces() {
        yield encodeSafetensorsHeader(described, metadata);
        for (const cut of cuts) yield* piecesOf(source, start, cut);
      },
    },
  };
}

/** Returns the weight files of a tier, under the same names. Throws a ConfigError before it reads tensor data. */
export async function cutWeights(
  files: ModelFiles,
  at: { readonly tier: number; readonly base: number },
): Promise<readonly OutFile[]> {
  const shards: CutShard[] = [];
  for (const name of await weightFiles(files)) {
    const source = await files.open(name);
    if (source === undefined) {
      throw new ConfigError('model/weights', `${files.name} lacks ${name}, which its index names`, {
        hint: 'download that file too',
      });
    }
    shards.push(await cutShard(source, name, at));
  }
  if (shards.every(({ cut }) => cut === 0)) {
    throw new ConfigError('tiers/shape', `${files.name} has no gate, up and down matrices to cut`, {
      hint: 'name the folder of a model with such feed-forward layers',
    });
  }
  const isIndexed = shards.some(({ file }) => file.name !== SINGLE);
  const index = isIndexed ? await files.open(INDEX) : undefined;
  if (index === undefined) return shards.map(({ file }) => file);
  const total = shards.reduce((sum, { bytes }) => sum + bytes, 0);
  const indexJson = (await readJson(index)) as { readonly weight_map?: unknown };
  const document = { metadata: { total_size: total }, weight_map: indexJson.weight_map };
  return [...shards.map(({ file }) => file), jsonFile(INDEX, document)];
}

/** Returns the names of all tensors in a model's files. */
export async function tensorNames(files: ModelFiles): Promise<readonly string[]> {
  const names: string[] = [];
  for (const file of await weightFiles(files)) {
    const source = await files.open(file);
    if (source !== undefined)
      names.push(...(await readShard(source)).entries.map(({ name }) => name));
  }
  return names;
}

/**
 * Returns the model with its feed-forward layers halved `slicing` times. Throws a ConfigError if that is impossible.
 */
export function narrowModel(pretrained: Pretrained, slicing: number): Pretrained {
  if (slicing === 0) return pretrained;
  const { config, spec, name } = pretrained;
  const { tier, base } = tierOf(config, name);
  const at = { tier: tier + slicing, base };
  const narrow = { ...spec, ffn: widthAt(base, at.tier, 'intermediate_size') };
  return {
    ...pretrained,
    spec: narrow,
    config: configAt(config, at),
    tensors: new Map(
      modelOf(narrow).tensors.map((tensor) => {
        const stored = pretrained.tensors.get(tensor.name)!;
        const { name, shape, inner } = tensor;
        return [name, inner === undefined ? stored : cut(stored, shape, inner)] as const;
      }),
    ),
  };
}

/** Returns the first part of a tensor along the feed-forward width. */
function cut(stored: StoredTensor, shape: readonly number[], inner: number): StoredTensor {
  const to = shape[inner]!;
  return {
    ...stored,
    shape,
    bytes: (stored.bytes * to) / stored.shape[inner]!,
    read: async () => {
      const values = await stored.read();
      return rangeAlong({ shape: stored.shape, inner }, values, { from: 0, to });
    },
  };
}

/** Yields the values of each slice, tensor by tensor; each tensor is read once. */
export async function* numbersBySlice(
  { spec, tensors }: Pretrained,
  widths: readonly number[],
): AsyncIterable<{ readonly slice: number; readonly values: Float32Array }> {
  for (const tensor of modelOf(spec).tensors) {
    const values = await readFinite(tensor.name, tensors.get(tensor.name)!);
    let from = 0;
    for (const [slice, width] of widths.entries()) {
      const to = from + width;
      if (slice === 0 || tensor.inner !== undefined) {
        yield { slice, values: rangeAlong(tensor, values, { from, to }) };
      }
      from = to;
    }
  }
}
