/**
 * GGUF files (llama.cpp's format): metadata, and tensors whose numbers may be quantized. The header is parsed by
 * `@huggingface/gguf`, which bounds counts and lengths; where tensors lie is checked here.
 */
import { type GGUFParseOutput, gguf } from '@huggingface/gguf';
import { ConfigError, safeLine } from '../base/errors.ts';
import type { ByteSource } from './byte-source.ts';
import { dequantize, type QuantizedFormat, quantizedFormats } from './quantized.ts';
import type { StoredTensor } from './weights.ts';

export interface GgufFile {
  readonly metadata: ReadonlyMap<string, unknown>;
  /** Shapes have the fastest dimension last, as everywhere here. */
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

/** Throws a ConfigError (`model/gguf`) about a file that is not one, is cut short, or holds a number format not read here. */
export async function openGguf(source: ByteSource): Promise<GgufFile> {
  const { metadata, tensorInfos, tensorDataOffset, littleEndian } = await parse(source);
  if (!littleEndian) throw wrong(source, 'its numbers are big-endian');
  const start = Number(tensorDataOffset);
  const tensors = new Map(
    tensorInfos.map((info) => [info.name, tensorOf(source, info, start)] as const),
  );
  return { metadata: new Map(Object.entries(metadata)), tensors };
}

type Info = GGUFParseOutput['tensorInfos'][number];

function tensorOf(source: ByteSource, info: Info, start: number): StoredTensor {
  const { name, dtype } = info;
  const format = quantizedFormats.get(dtype);
  if (!format) {
    const known = [...quantizedFormats.values()].map((one) => one.name).join(', ');
    throw wrong(
      source,
      `tensor ${safeLine(name)} has the number format ${dtype}, which is not read here`,
      { hint: `take a file in one of ${known}` },
    );
  }
  const shape = info.shape.map(Number).reverse();
  const size = shape.reduce((product, dim) => product * dim, 1);
  const from = start + Number(info.offset);
  const to = from + (size / format.values) * format.bytes;
  const row = shape.at(-1) ?? 1;
  if (row % format.values !== 0) {
    throw wrong(source, `tensor ${safeLine(name)} has rows of ${row} values in ${format.name}`);
  }
  if (!(to <= source.size)) {
    throw wrong(
      source,
      `tensor ${safeLine(name)} ends at byte ${to}, and the file has ${source.size}`,
      { hint: 'the file is cut short: get it again' },
    );
  }
  return {
    shape,
    format: format.name,
    bytes: to - from,
    read: () => read(source, format, from, to),
  };
}

const read = async (
  source: ByteSource,
  format: QuantizedFormat,
  from: number,
  to: number,
): Promise<Float32Array> => dequantize(format, await source.read(from, to));

/** The parser asks for ranges of an address, which are answered from the source. */
async function parse(source: ByteSource): Promise<GGUFParseOutput<{ strict: false }>> {
  const answer = async (_: unknown, init?: unknown): Promise<Response> => {
    const { headers: asked } = init as { headers: { Range: string } };
    const [first, last] = asked.Range.replace('bytes=', '').split('-').map(Number);
    const from = Math.min(first!, source.size);
    const bytes = await source.read(from, Math.min(last! + 1, source.size));
    const headers = { 'content-range': `bytes ${first}-${last}/${source.size}` };
    return new Response(bytes as BodyInit, { status: 206, headers });
  };
  try {
    return (await gguf('https://file.invalid/', {
      fetch: answer,
    })) as unknown as GGUFParseOutput<{ strict: false }>;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw wrong(source, safeLine(reason), { hint: 'name a GGUF file that llama.cpp reads', cause });
  }
}

const wrong = (
  source: ByteSource,
  reason: string,
  { hint = 'get the file again', cause }: { hint?: string; cause?: unknown } = {},
): ConfigError => new ConfigError('model/gguf', `${source.name}: ${reason}`, { hint, cause });
