/** Payloads of gradient events in the shapes that the Python reference's library gives them. */
import { ok, type Result } from '../../base/result.ts';
import type { Params } from '../../tensor/params.ts';
import type { NstrStats } from './header.ts';
import { type EncodedNstr, encodeNstr } from './nstr.ts';
import { type ForeignNstr, type ForeignNstrLimits, readNstr } from './nstr-foreign.ts';
import type { Zstd } from './zstd.ts';

/** What `compressDelta` takes beside the delta. */
export interface CompressionOptions {
  /** Share of the values that is sent, in (0, 1]; default 0.01. */
  readonly ratio?: number;
  /** Compresses with zstd instead of zlib; not every worker reads it. */
  readonly zstd?: Zstd | undefined;
}

/** What a payload of anybody may be: 64 MiB packed, 2^24 values of a model. */
export const defaultPayloadLimits: ForeignNstrLimits = {
  maxContainerBytes: 2 ** 26,
  maxValues: 2 ** 24,
};

/**
 * Packs a delta (after - before): its values of largest magnitude, as int8 with one scale, then zlib. To the byte what the
 * Python reference makes. Throws a ConfigError for an empty delta or a ratio outside (0, 1], a TrainingError for values that
 * are not finite or have no int8 scale.
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
 * The delta (after - before) in a base64 payload from anyone, f64, zeros where nothing was sent; or why it is refused. The
 * payload says of which model it is, within the limits. zstd is read where `limits` bring it. Never throws.
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
 * Sizes and settings of a base64 payload from anyone, or why it is refused; it is checked whole. Never throws.
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

/** Every value of a delta of which some were sent. */
export function wholeDelta({ layout, delta }: ForeignNstr): Params {
  const values = new Float64Array(layout.size);
  delta.indices.forEach((index, i) => {
    values[index] = delta.values[i]!;
  });
  return { layout, values };
}
