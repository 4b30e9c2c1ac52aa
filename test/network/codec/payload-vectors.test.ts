import { createHash } from 'node:crypto';
import { fromHex, toHex } from 'nostrain/base';
import { decodePayload, encodePayload } from 'nostrain/network';
import { describe, expect, test } from 'vitest';
import { drawn, type PayloadVectors } from '../../support/payload-vectors.ts';
import { readVectors, valuesOf } from '../../support/vectors.ts';

const vectors = readVectors<PayloadVectors>('payload-codecs.json');
const scopeFor = (round: number, size: number, chunks: readonly number[]) => ({
  run: fromHex(vectors.run)!,
  roster: fromHex(vectors.roster)!,
  sender: new Uint8Array(32),
  round,
  size,
  chunks: Uint32Array.from(chunks),
});
const hashOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const bytesOf = (values: Float64Array) => new Uint8Array(values.buffer);

// trellis.json has the vectors of trellis codes
describe('int8', () => {
  const packing = { codec: 'int8', kept: 0 } as const;

  test.each(vectors.small)('$name', ({ round, delta, payload, decoded }) => {
    const scope = scopeFor(round, delta.length, [0]);
    const encoded = encodePayload(Float64Array.from(delta), packing, scope);
    expect(toHex(encoded.payload)).toBe(payload);
    expect([...valuesOf(encoded.sent)]).toEqual(decoded);
    const read = decodePayload(fromHex(payload)!, scope);
    expect(read.ok && [...valuesOf(read.value.delta)]).toEqual(decoded);
  });

  test.each(vectors.large)('three of four chunks', (vector) => {
    const { round, size, seed, chunks, bytes } = vector;
    const scope = scopeFor(round, size, chunks);
    const { payload } = encodePayload(drawn(size, seed), packing, scope);
    expect(payload).toHaveLength(bytes);
    expect(hashOf(payload)).toBe(vector.payloadSha256);
    const read = decodePayload(payload, scope);
    expect(read.ok && hashOf(bytesOf(valuesOf(read.value.delta)))).toBe(vector.decodedSha256);
  });
});

test.each(vectors.refusedOfThirteenValuesInRound4)('refused: $why', ({ payload, code }) => {
  const result = decodePayload(fromHex(payload)!, scopeFor(4, 13, [0]));
  expect(result).toMatchObject({ ok: false, issue: { code } });
});
