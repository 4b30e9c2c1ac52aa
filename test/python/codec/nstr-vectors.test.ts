import { ConfigError, sha256Hex, TrainingError, toHex } from 'nostrain/base';
import { type NstrStats, parseStateJson } from 'nostrain/python';
import { decodeNstr, encodeNstr, inflateAtMost, readNstr } from 'nostrain/python/parts';
import { createLayout, type Layout, stateDigest } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { compressionLabel, selectedCount } from '../../../src/python/codec/nstr.ts';
import type { SparseVector } from '../../../src/tensor/partial-vector.ts';
import { stateText } from '../../support/state-text.ts';
import { toParams } from '../../support/vectors.ts';
import payloads from '../../vectors/payloads.json' with { type: 'json' };
import foreign from '../../vectors/payloads-decode.json' with { type: 'json' };
import generated from '../../vectors/payloads-generated.json' with { type: 'json' };

type State = Parameters<typeof toParams>[0];

const maxContainerBytes = 1 << 20;

function densely({ size, indices, values }: SparseVector): Float64Array {
  const out = new Float64Array(size);
  indices.forEach((index, i) => {
    out[index] = values[i]!;
  });
  return out;
}

const digestOf = (layout: Layout, delta: SparseVector) =>
  stateDigest({ layout, values: densely(delta) });

const rawOf = (container: Uint8Array) => inflateAtMost(container.subarray(6), 1 << 22).bytes;

const asReference = (stats: NstrStats) => ({
  codec: stats.codec,
  topk_ratio: stats.ratio,
  total_values: stats.total,
  selected_values: stats.selected,
  density: stats.density,
  parameter_count: stats.tensors,
  scale: stats.scale,
  wire_bytes: stats.containerBytes,
  encoded_bytes: stats.payloadChars,
  dense_bytes: stats.denseBytes,
  compression_ratio: stats.compressionRatio,
  compression_label: stats.label,
});

describe('N-01: payloads agree with the reference to the byte', () => {
  const made = payloads.cases.filter((each) => each.decoded && each.codec === 'zlib');

  test.each(made)('$name', ({ delta, topk, ...expected }) => {
    const params = parseStateJson(stateText(delta));
    const { payload, container, sent, stats } = encodeNstr(params, { ratio: topk });
    expect(toHex(rawOf(container))).toBe(expected.raw_hex);
    expect(payload).toBe(expected.payload);
    expect([...sent.indices]).toEqual(expected.indices);
    expect([...sent.values]).toEqual(expected.quantized?.map((q) => q * stats.scale + 0));
    expect(asReference(stats)).toEqual(expected.stats);
    const decoded = decodeNstr(payload, { layout: params.layout, maxContainerBytes });
    expect(decoded).toEqual({ ok: true, value: { delta: sent, stats } });
    expect(digestOf(params.layout, sent)).toBe(expected.decoded?.digest);
    expect(readNstr(payload, { maxContainerBytes, maxValues: 1 << 20 })).toEqual({
      ok: true,
      value: { layout: params.layout, delta: sent, stats },
    });
  });

  test.each(generated.cases)('$n generated values at $topk', ({ n, seed, topk, ...expected }) => {
    const layout = createLayout([
      { name: 'g.bias', shape: [n / 10] },
      { name: 'g.weight', shape: [9, n / 10] },
    ]);
    const delta = { layout, values: generate(n, seed) };
    expect(stateDigest(delta)).toBe(expected.delta_digest);
    const { payload, container, sent, stats } = encodeNstr(delta, { ratio: topk });
    expect(sha256Hex(rawOf(container))).toBe(expected.raw_sha256);
    expect(asReference(stats)).toEqual(expected.stats);
    expect(digestOf(layout, sent)).toBe(expected.decoded_digest);
    if (expected.payload !== undefined) expect(payload).toBe(expected.payload);
  });

  test.each(payloads.selected_count_table)('$ratio of $n', ({ n, ratio, selected }) => {
    expect(selectedCount(n, ratio)).toBe(selected);
  });

  test.each(payloads.label_table)('label of $ratio', ({ ratio, label }) => {
    expect(compressionLabel(ratio, 'zlib')).toBe(label);
  });
});

/** The generator the vectors describe: a linear congruence, its fifth power, a hundredth. */
function generate(n: number, seed: number): Float64Array {
  let state = BigInt(seed);
  return Float64Array.from({ length: n }, () => {
    state = (state * 1103515245n + 12345n) & 0x7fffffffn;
    const v = 2 * (Number(state) / 0x7fffffff) - 1;
    return v * v * v * v * v * 0.01;
  });
}

describe('what the encoder does not send', () => {
  const one = (values: number[]) => ({
    layout: createLayout([{ name: 'x', shape: [values.length] }]),
    values: Float64Array.from(values),
  });

  test.each(payloads.invalid_ratios)('ratio $ratio', ({ ratio }) => {
    expect(() => encodeNstr(one([1]), { ratio })).toThrow(ConfigError);
  });

  test.each(payloads.non_finite_inputs)('$name', ({ values }) => {
    expect(() => encodeNstr(one(values.map(toNumber)), { ratio: 1 })).toThrow(TrainingError);
  });

  // the reference divides by zero on the first and sends infinity on the second
  test.each(['denormal-underflow-crash', 'huge-values'])('%s', (name) => {
    const { delta } = payloads.cases.find((each) => each.name === name)!;
    expect(() => encodeNstr(toParams(delta as State), { ratio: 1 })).toThrow(TrainingError);
  });

  test('an empty delta', () => {
    expect(() => encodeNstr(one([]), { ratio: 1 })).toThrow(ConfigError);
  });

  const toNumber = (text: string) => Number(text.replace('inf', 'Infinity'));
});

describe('foreign payloads', () => {
  /** Accepted by the reference, refused here, and why. */
  const hardened: Record<string, string> = {
    'unsorted-indices-accepted': 'bad-index', // ascending order is what makes repeats visible
    'duplicate-indices-last-wins': 'bad-index', // which value counts would be a matter of reading order
    'q=-128-accepted': 'bad-value', // no encoder makes it; it exceeds the announced largest value
    'negative-scale-accepted': 'bad-scale', // no encoder makes it
    'zero-q-negative-scale-gives-negzero': 'bad-scale', // smuggles -0 into sums
    'zero-selected': 'wrong-shape', // at least one value is always sent
    'nan-scale-accepted': 'not-finite', // one of these poisons every sum
    'inf-scale-accepted': 'not-finite',
    'topk-ratio-out-of-range-accepted': 'bad-ratio', // the label it makes says nothing
    'params-not-sorted-accepted': 'wrong-shape', // another order is another layout
    'trailing-bytes-after-deflate-accepted': 'bad-deflate', // room for bytes nobody looks at
    'base64-with-newlines-and-junk-accepted': 'bad-base64', // many texts for one payload
  };
  const layout = createLayout([
    { name: 'a', shape: [2] },
    { name: 'b', shape: [3] },
  ]);

  test.each(foreign.cases)('$name', ({ name, payload, decode }) => {
    const read = decodeNstr(payload, { layout, maxContainerBytes });
    if (!decode.ok || name in hardened) {
      expect(read).toMatchObject({ ok: false });
      expect(read.ok ? '' : read.issue.code).toBe(hardened[name] ?? (!read.ok && read.issue.code));
    } else {
      expect(read.ok && digestOf(layout, read.value.delta)).toBe(decode.result?.digest);
    }
  });

  test.each(foreign.cases)(
    '$name, of a model nobody told us about',
    ({ name, payload, decode }) => {
      const read = readNstr(payload, { maxContainerBytes, maxValues: 1 << 16 });
      const isKnownOrder = name === 'params-not-sorted-accepted';
      if (!decode.ok || (name in hardened && !isKnownOrder)) expect(read.ok).toBe(false);
      else
        expect(read.ok && digestOf(read.value.layout, read.value.delta)).toBe(
          decode.result?.digest,
        );
    },
  );

  test('zstd is refused by name where no decoder is given', () => {
    const zstd = payloads.cases.find(({ codec }) => codec === 'zstd')!;
    const { layout: own } = toParams(zstd.delta as State);
    expect(decodeNstr(zstd.payload ?? '', { layout: own, maxContainerBytes })).toMatchObject({
      ok: false,
      issue: { code: 'unsupported-codec' },
    });
  });
});
