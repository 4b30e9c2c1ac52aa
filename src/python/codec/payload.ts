/**
 * Encodes and decodes payloads of gradient events, as the Python reference's library does. If the model is not known,
 * the layout comes from the payload itself, within limits; all other checks are equally strict.
 */
import { ok, type Result, refuse } from '../../base/errors.ts';
import { createLayout, type Layout, type Params } from '../../tensor/params.ts';
import type { SparseVector } from '../../tensor/partial-vector.ts';
import { type ContainerLimits, openContainer, type Zstd } from './container.ts';
import {
  decodeNstr,
  ENTRY_BYTES,
  type EncodedNstr,
  encodeNstr,
  FIXED_HEADER_BYTES,
  type NstrStats,
  openHead,
} from './nstr.ts';

/** Options of `compressDelta`. */
export interface CompressionOptions {
  /** Share of the values to send, in (0, 1]; default 0.01. */
  readonly ratio?: number;
  /** Compresses with zstd instead of zlib; not every worker supports it. */
  readonly zstd?: Zstd | undefined;
}

/** Default limits of an untrusted payload: 64 MiB compressed, a model of 2^24 values. */
export const defaultPayloadLimits: ForeignNstrLimits = {
  maxContainerBytes: 2 ** 26,
  maxValues: 2 ** 24,
};

/**
 * Encodes the largest values of a delta (after - before) as int8 with one scale, then compresses them with zlib; byte
 * for byte as the Python reference. Throws a ConfigError for an empty delta or a ratio outside (0, 1], a TrainingError
 * for values that are not finite or have no int8 scale.
 *
 * @example
 * ```ts
 * import { compressDelta, createLayout } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [4] }]);
 * const values = Float64Array.of(0.1, -127, 3, 0);
 * const { payload, stats, sent } = compressDelta({ layout, values }, { ratio: 0.5 });
 * stats.selected; // => 2
 * sent.values; // => Float64Array.of(-127, 3)
 * payload.startsWith('TlNDUA'); // => true
 * ```
 */
export const compressDelta = (
  delta: Params,
  { ratio = 0.01, zstd }: CompressionOptions = {},
): EncodedNstr => encodeNstr(delta, { ratio, zstd });

/**
 * Decodes an untrusted base64 payload to a delta (after - before), f64, with zeros for values that were not sent; or
 * returns why it is refused. The payload describes its model; zstd is read if `limits.zstd` is set. Never throws.
 *
 * @example
 * ```ts
 * import { compressDelta, createLayout, decompressPayload } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [2, 2] }]);
 * const { payload } = compressDelta({ layout, values: Float64Array.of(0.1, -127, 3, 0) }, { ratio: 0.5 });
 * const read = decompressPayload(payload);
 * read.ok && read.value.values; // => Float64Array.of(0, -127, 3, 0)
 * decompressPayload('bm90IGEgcGF5bG9hZA==').ok; // => false
 * ```
 */
export function decompressPayload(
  payload: string,
  limits: Partial<ForeignNstrLimits> = {},
): Result<Params> {
  const read = readNstr(payload, { ...defaultPayloadLimits, ...limits });
  return read.ok ? ok(wholeDelta(read.value)) : read;
}

/**
 * Returns sizes and settings of an untrusted base64 payload, or why it is refused; checks the complete payload. Never
 * throws.
 *
 * @example
 * ```ts
 * import { compressDelta, createLayout, inspectPayload } from 'nostrain/python';
 *
 * const layout = createLayout([{ name: 'w', shape: [2, 2] }]);
 * const { payload } = compressDelta({ layout, values: Float64Array.of(1, -2, 3, 0) }, { ratio: 0.5 });
 * const read = inspectPayload(payload);
 * read.ok && [read.value.total, read.value.selected]; // => [4, 2]
 * read.ok && read.value.label; // => 'topk-0.5000-int8-zlib'
 * ```
 */
export function inspectPayload(
  payload: string,
  limits: Partial<ForeignNstrLimits> = {},
): Result<NstrStats> {
  const read = readNstr(payload, { ...defaultPayloadLimits, ...limits });
  return read.ok ? ok(read.value.stats) : read;
}

/** Expands a sparse delta to all values of the model, with zeros for values that were not sent. */
export function wholeDelta({ layout, delta }: ForeignNstr): Params {
  const values = new Float64Array(layout.size);
  delta.indices.forEach((index, i) => {
    values[index] = delta.values[i]!;
  });
  return { layout, values };
}

/** Limits of an untrusted payload of an unknown model. */
export interface ForeignNstrLimits extends ContainerLimits {
  /** Maximum number of values of the model, whether sent or not. */
  readonly maxValues: number;
}

/** A payload decoded with the layout that it describes. */
export interface ForeignNstr {
  readonly layout: Layout;
  /** Improvement (after - before), as on the wire. */
  readonly delta: SparseVector;
  readonly stats: NstrStats;
}

/** Maximum bytes of the tensor descriptors; names and shapes of the largest known models take 10 kB. */
const MAX_DESCRIPTOR_BYTES = 1 << 20;

/** Decodes layout and delta of an untrusted payload. */
export function readNstr(payload: string, limits: ForeignNstrLimits): Result<ForeignNstr> {
  const layout = readLayout(payload, limits);
  if (!layout.ok) return layout;
  const decoded = decodeNstr(payload, { ...limits, layout: layout.value });
  return decoded.ok ? ok({ layout: layout.value, ...decoded.value }) : decoded;
}

function readLayout(payload: string, limits: ForeignNstrLimits): Result<Layout> {
  const mostHeader = FIXED_HEADER_BYTES + MAX_DESCRIPTOR_BYTES;
  const opened = openContainer(payload, limits, mostHeader + ENTRY_BYTES * limits.maxValues);
  if (!opened.ok) return opened;
  const head = openHead(opened.value, MAX_DESCRIPTOR_BYTES);
  if (!head.ok) return head;
  const { bytes, header } = head.value;
  if (header.total > limits.maxValues) {
    const most = `over the limit of ${limits.maxValues}`;
    return refuse('too-large', 'block', `a model of ${header.total} values, ${most}`);
  }
  const tensors = readDescriptors(bytes, header.tensors);
  if (!tensors.ok) return tensors;
  // compared before the layout is built, which throws for too many parameters
  const size = tensors.value.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
  if (size === header.total) return ok(createLayout(tensors.value));
  const claimed = `the header states ${header.total}`;
  return refuse('wrong-shape', 'block', `tensors of ${size} values, ${claimed}`);
}

const sizeOf = (shape: readonly number[]): number => shape.reduce((size, each) => size * each, 1);

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads `count` tensors with distinct names at the start of a block, which may be truncated. */
function readDescriptors(block: Uint8Array, count: number): Result<readonly Tensor[]> {
  const view = new DataView(block.buffer, block.byteOffset, block.length);
  const tensors = new Map<string, Tensor>();
  let at = FIXED_HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    const descriptor = readDescriptor(view, at);
    if (descriptor === undefined) {
      return refuse(
        'truncated',
        `block.tensors.${i}`,
        'its name or shape is truncated, or its name is not text',
      );
    }
    const { name } = descriptor;
    if (name === '' || tensors.has(name)) {
      return refuse('wrong-shape', `block.tensors.${i}`, 'its name is empty or repeated');
    }
    tensors.set(name, descriptor);
    at = descriptor.end;
  }
  if (tensors.size === 0) return refuse('wrong-shape', 'block', 'no tensors');
  return ok([...tensors.values()]);
}

function readDescriptor(view: DataView, start: number): (Tensor & { end: number }) | undefined {
  const shapeAt = start + 2 + (start + 2 <= view.byteLength ? view.getUint16(start, true) : 0);
  if (shapeAt + 2 > view.byteLength) return undefined;
  const end = shapeAt + 2 + 4 * view.getUint16(shapeAt, true);
  if (end > view.byteLength) return undefined;
  const shape: number[] = [];
  for (let at = shapeAt + 2; at < end; at += 4) shape.push(view.getUint32(at, true));
  try {
    const bytes = new Uint8Array(view.buffer, view.byteOffset + start + 2, shapeAt - start - 2);
    return { name: utf8.decode(bytes), shape, end };
  } catch {
    return undefined;
  }
}
