import { createHash } from 'node:crypto';
import { fromHex, toHex } from 'nostrain/base';
import { type CodecName, codecs, decodePayload, encodePayload } from 'nostrain/network';
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

for (const codec of Object.keys(codecs) as CodecName[]) {
  // trellis.json has the vectors of trellis codes
  if (codecs[codec].sends === 'bits') continue;
  describe(codec, () => {
    const small = vectors.small.filter((vector) => vector.codec === codec);
    test.each(small)('$name', ({ kept, round, delta, payload, decoded }) => {
      const scope = scopeFor(round, delta.length, [0]);
      const encoded = encodePayload(Float64Array.from(delta), { codec, kept }, scope);
      expect(toHex(encoded.payload)).toBe(payload);
      expect([...valuesOf(encoded.sent)]).toEqual(decoded);
      const read = decodePayload(fromHex(payload)!, scope);
      expect(read.ok && [...valuesOf(read.value.delta)]).toEqual(decoded);
    });

    const large = vectors.large.filter((vector) => vector.codec === codec);
    test.each(large)('three of four chunks, keeping $kept', (vector) => {
      const { kept, round, size, seed, chunks, bytes } = vector;
      const scope = scopeFor(round, size, chunks);
      const { payload } = encodePayload(drawn(size, seed), { codec, kept }, scope);
      expect(payload).toHaveLength(bytes);
      expect(hashOf(payload)).toBe(vector.payloadSha256);
      const read = decodePayload(payload, scope);
      expect(read.ok && hashOf(bytesOf(valuesOf(read.value.delta)))).toBe(vector.decodedSha256);
    });
  });
}

test.each(vectors.refusedOfThirteenValuesInRound4)('refused: $why', ({ payload, code }) => {
  const result = decodePayload(fromHex(payload)!, scopeFor(4, 13, [0]));
  expect(result).toMatchObject({ ok: false, issue: { code } });
});
