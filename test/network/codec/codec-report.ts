/** What the codecs make of seeded deltas, of the golden vectors and of fuzzed payloads, as digests: equal wherever it runs. */

import { fromHex, NostrainError, type Result, sha256Hex, utf8 } from 'nostrain/base';
import { decodePayload, encodePayload, type Packing, type PayloadScope } from 'nostrain/network';
import { decodeNstr, encodeNstr } from 'nostrain/python/parts';
import {
  addPartial,
  CHUNK_LENGTH,
  createLayout,
  type PartialVector,
  partialOf,
} from 'nostrain/tensor';
import { drawnDelta, scopeOf } from '../../support/drawn-delta.ts';
import { fuzzedPayloads, packings } from '../../support/payload-fuzz.ts';
import { drawn, type PayloadVectors } from '../../support/payload-vectors.ts';

/** Digests or error codes, by what they are of. */
export type CodecReport = Record<string, string>;

/** The report; the vectors are an argument, for a browser has no files. */
export function run({ vectors, fuzzed }: { vectors: PayloadVectors; fuzzed: number }): CodecReport {
  const report: CodecReport = {};
  const scopeFor = (round: number, size: number, chunks: readonly number[]) => ({
    ...scopeOf(size, chunks),
    run: fromHex(vectors.run)!,
    roster: fromHex(vectors.roster)!,
    round,
  });
  for (const { name, codec, kept, round, delta } of vectors.small) {
    const scope = scopeFor(round, delta.length, [0]);
    report[`vector ${name} ${codec}`] = bothWays(Float64Array.from(delta), { codec, kept }, scope);
  }
  for (const { codec, kept, round, size, seed, chunks } of vectors.large) {
    const scope = scopeFor(round, size, chunks);
    const name = `vector ${codec} ${kept} of ${size}`;
    report[name] = bothWays(drawn(size, seed), { codec, kept }, scope);
  }
  for (const [name, delta] of Object.entries(deltas())) {
    for (const packing of packings) {
      const scope = scopeOf(delta.length);
      report[`${packing.codec} ${packing.kept} of ${name}`] = bothWays(delta, packing, scope);
    }
    report[`nstr of ${name}`] = nstrBothWays(delta);
  }
  report.fuzzed = digest([...fuzzedPayloads(fuzzed, 1)].map(({ decode }) => verdict(decode())));
  return report;
}

/** Sizes around the borders of bytes and chunks, and values around the borders of f32, bfloat16 and rounding. */
function deltas(): Readonly<Record<string, Float64Array>> {
  const sizes = [1, 7, 61, CHUNK_LENGTH - 1, CHUNK_LENGTH, CHUNK_LENGTH + 1, 5 * CHUNK_LENGTH + 77];
  const edges = [
    0,
    -0,
    5e-324,
    1e-45,
    -1e-40,
    2 ** -126,
    2 ** -127,
    1 + 2 ** -24,
    1 + 3 * 2 ** -24,
  ];
  const ties = [1, -1, 0.5, 1.5, 2.5, -2.5, 127, 126.5, 1 + 2 ** -8, 1 + 3 * 2 ** -8];
  const cycled = (values: readonly number[], length: number) =>
    Float64Array.from({ length }, (_, i) => values[(i * 7) % values.length]!);
  return {
    ...Object.fromEntries(sizes.map((size) => [`${size} drawn`, drawnDelta(size, size)])),
    zeros: new Float64Array(CHUNK_LENGTH + 3),
    'edges of f32': cycled(edges, 500),
    'ties of rounding': cycled(ties, 500),
    'magnitudes far apart': drawnDelta(900).map((value, i) => value * 2 ** ((i * 37) % 200)),
    'the largest f32': cycled([3.4028234e38, -3.4028234e38, 1e38], 90),
    'beyond f32': cycled([1, 1e39], 90),
    'not a number': cycled([1, 2, Number.NaN], 90),
  };
}

const bytesOf = (values: Float64Array) => new Uint8Array(values.buffer);
const digest = (parts: readonly string[]) => sha256Hex(utf8(parts.join('\n')));

/** Digest of the payload and of what a receiver adds, or the code of the error. */
function bothWays(delta: Float64Array, packing: Packing, scope: PayloadScope): string {
  return attempt(() => {
    const { payload } = encodePayload(delta, packing, scope);
    const read = decodePayload(payload, scope);
    if (!read.ok) return read.issue.code;
    return `${sha256Hex(payload)} ${added(read.value.delta)}`;
  });
}

function nstrBothWays(values: Float64Array): string {
  const layout = createLayout([{ name: 'all', shape: [values.length] }]);
  return attempt(() => {
    const { payload } = encodeNstr({ layout, values }, { ratio: 0.3 });
    const read = decodeNstr(payload, { layout, maxContainerBytes: 1 << 20 });
    if (!read.ok) return read.issue.code;
    return `${sha256Hex(utf8(payload))} ${added(partialOf(read.value.delta))}`;
  });
}

function attempt(report: () => string): string {
  try {
    return report();
  } catch (error) {
    if (error instanceof NostrainError) return error.code;
    throw error;
  }
}

/** Digest of a vector to which the delta was added with a weight. */
function added(delta: PartialVector): string {
  const sum = new Float64Array(delta.size);
  addPartial(sum, delta, 0.3);
  return sha256Hex(bytesOf(sum));
}

/** The code of a refusal, or the digest of what was accepted. */
const verdict = (result: Result<PartialVector>): string =>
  result.ok ? added(result.value) : result.issue.code;
