/** What every codec of the compact payload promises; each is held to it by name. */
import fc from 'fast-check';
import { NostrainError } from 'nostrain/base';
import {
  decodePayload,
  encodePayload,
  PAYLOAD_HEADER_BYTES,
  type Packing,
  type PayloadScope,
  payloadBytes,
} from 'nostrain/network';
import { addPartial, CHUNK_LENGTH } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { drawnDelta, scopeOf } from '../support/drawn-delta.ts';
import { valuesOf } from '../support/vectors.ts';

const energy = (vector: Float64Array) => vector.reduce((sum, value) => sum + value * value, 0);
const bitsOf = (vector: Float64Array) => new BigUint64Array(vector.buffer.slice(0));
const single = fc.float({ noNaN: true, min: Math.fround(-1e30), max: Math.fround(1e30) });
const tied = fc.constantFrom(0, -0, 1, -1, 0.5, -0.5, 2, 5e-324, 1e-45, -1e-40, 1e-38, 1e30);
/** Multiples of one small number, not too far apart: their differences to what is sent have few enough bits to be exact. */
const exact = fc
  .array(fc.oneof(fc.integer({ min: -(2 ** 20), max: 2 ** 20 }), fc.constant(0)), {
    minLength: 1,
    maxLength: 90,
  })
  .map((list) => Float64Array.from(list, (value) => value * 2 ** -24));
const vectors = fc
  .array(fc.oneof(single, tied), { minLength: 1, maxLength: 70 })
  .map((values) => Float64Array.from(values));

/** Runs the whole contract for one codec. */
export function testCodec(packing: Packing): void {
  const { codec, kept } = packing;
  const encode = (delta: Float64Array, scope = scopeOf(delta.length)) =>
    encodePayload(delta, packing, scope);
  const decoded = (payload: Uint8Array, scope: PayloadScope) => {
    const result = decodePayload(payload, scope);
    return result.ok
      ? { ...result.value.packing, bits: bitsOf(valuesOf(result.value.delta)).join() }
      : undefined;
  };

  describe(`${codec}${kept === 0 ? '' : ` of ${kept}`}`, () => {
    test('a receiver decodes what the sender counts as sent', () => {
      fc.assert(
        fc.property(vectors, (delta) => {
          const scope = scopeOf(delta.length);
          const { payload, sent } = encode(delta, scope);
          const result = decodePayload(payload, scope);
          expect(result).toMatchObject({ ok: true, value: { packing } });
          if (!result.ok) return;
          expect(bitsOf(valuesOf(result.value.delta))).toEqual(bitsOf(valuesOf(sent)));
          expect(result.value.delta.chunks).toEqual(scope.chunks);
        }),
        { numRuns: 300 },
      );
    });

    test('leaves the residual and gets it back; chunks of others stay as they are', () => {
      const delta = drawnDelta(3 * CHUNK_LENGTH + 77);
      delta[5000] = -0;
      const scope = scopeOf(delta.length, [0, 2, 3]);
      const { sent } = encode(delta, scope);
      const values = valuesOf(sent);
      const residual = delta.slice();
      addPartial(residual, sent, -1);
      const inFirst = (vector: Float64Array) => vector.subarray(0, CHUNK_LENGTH);
      expect(energy(inFirst(residual))).toBeLessThan(energy(inFirst(delta)));
      delta.forEach((value, i) => {
        const isOwned = i < CHUNK_LENGTH || i >= 2 * CHUNK_LENGTH;
        if (residual[i] !== value - values[i]!) expect(residual[i]).toBe(value - values[i]!);
        if (!isOwned) expect(residual[i]).toBe(value);
      });
      addPartial(residual, sent, 1);
      const worst = residual.reduce(
        (most, value, i) => Math.max(most, Math.abs(value - delta[i]!)),
        0,
      );
      expect(worst).toBeLessThan(1e-18);
    });

    test('what a receiver decodes and the residual are the delta, exactly', () => {
      fc.assert(
        fc.property(exact, (delta) => {
          const scope = scopeOf(delta.length);
          const result = decodePayload(encode(delta, scope).payload, scope);
          if (!result.ok) throw new Error(result.issue.code);
          const sent = valuesOf(result.value.delta);
          const residual = delta.slice();
          addPartial(residual, result.value.delta, -1);
          delta.forEach((value, i) => {
            // no rounding hides in it: what the subtraction lost is nothing
            const isWhole =
              value - residual[i]! - sent[i]! === 0 && sent[i]! + residual[i]! === value;
            if (!isWhole) expect([sent[i], residual[i]]).toBe(value);
          });
          addPartial(residual, result.value.delta, 1);
          expect(residual).toEqual(delta);
        }),
        { numRuns: 300 },
      );
    });

    test('a weight is applied with one rounding per value', () => {
      const delta = drawnDelta(CHUNK_LENGTH + 9);
      const { sent } = encode(delta);
      const plain = valuesOf(sent);
      const weighted = new Float64Array(delta.length);
      addPartial(weighted, sent, 0.3);
      expect(bitsOf(weighted)).toEqual(bitsOf(plain.map((value) => 0 + value * 0.3)));
    });

    test('is as long as it says beforehand', () => {
      for (const size of [CHUNK_LENGTH, 2 * CHUNK_LENGTH, CHUNK_LENGTH + 1, 12]) {
        const { payload } = encode(drawnDelta(size));
        const rest = size % CHUNK_LENGTH;
        const whole = payloadBytes(packing, Math.floor(size / CHUNK_LENGTH));
        const last = rest === 0 ? 0 : payloadBytes(packing, 1, rest) - PAYLOAD_HEADER_BYTES;
        expect(payload.length).toBe(whole + last);
      }
    });

    test('makes the same bytes again, from f32 as from f64', () => {
      const delta = Float32Array.from(drawnDelta(CHUNK_LENGTH + 50));
      const scope = scopeOf(delta.length);
      const { payload } = encodePayload(delta, packing, scope);
      expect(encode(Float64Array.from(delta)).payload).toEqual(payload);
    });

    test('sends nothing of zeros and of what is too small, and no chunk where it owns none', () => {
      for (const value of [0, -0, 1e-44, -1e-300]) {
        const delta = new Float64Array(CHUNK_LENGTH + 3).fill(value);
        const { payload, sent } = encode(delta);
        expect(decoded(payload, scopeOf(delta.length))).toBeDefined();
        expect(bitsOf(valuesOf(sent)).every((bits) => bits === 0n)).toBe(true);
      }
      const none = encode(drawnDelta(10), scopeOf(10, []));
      expect(none.payload).toHaveLength(PAYLOAD_HEADER_BYTES);
      expect(decoded(none.payload, scopeOf(10, []))).toBeDefined();
    });

    test('refuses to send what is not finite, in its own chunks', () => {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 1e39]) {
        const delta = new Float64Array(2 * CHUNK_LENGTH).fill(value, CHUNK_LENGTH);
        expect(() => encode(delta, scopeOf(delta.length, [0]))).not.toThrow();
        expect(() => encode(delta)).toThrow(NostrainError);
      }
    });

    test('one update has one spelling: another bit is refused or says something else', () => {
      for (const size of [61, 64]) {
        const delta = drawnDelta(size);
        const scope = scopeOf(size);
        const { payload } = encode(delta, scope);
        const seen = new Set([JSON.stringify(decoded(payload, scope))]);
        for (let bit = 0; bit < 8 * payload.length; bit++) {
          const other = payload.slice();
          other[bit >>> 3] = other[bit >>> 3]! ^ (1 << (bit & 7));
          const says = decoded(other, scope);
          if (says === undefined) continue;
          const text = JSON.stringify(says);
          if (seen.has(text)) expect(seen).not.toContain(text);
          seen.add(text);
        }
      }
    });

    test('a payload that is cut or grown is refused', { timeout: 120_000 }, () => {
      const delta = drawnDelta(CHUNK_LENGTH + 40);
      const scope = scopeOf(delta.length);
      const { payload } = encode(delta, scope);
      // every cut of the header and of the end, every seventh between them
      const isNear = (end: number) => Math.min(end, payload.length - end) < 200;
      for (let end = 0; end < payload.length; end += isNear(end) ? 1 : 7) {
        expect(decodePayload(payload.subarray(0, end), scope).ok).toBe(false);
      }
      for (const more of [0, 1, 255]) {
        const grown = Uint8Array.of(...payload, more);
        expect(decodePayload(grown, scope)).toMatchObject({
          ok: false,
          issue: { code: 'trailing-bytes' },
        });
      }
    });

    test('bytes from anywhere are judged, never thrown at', () => {
      const size = CHUNK_LENGTH + 30;
      const scope = scopeOf(size);
      const { payload } = encode(drawnDelta(size), scope);
      const change = fc.tuple(fc.nat(payload.length - 1), fc.nat(255));
      fc.assert(
        fc.property(fc.array(change, { maxLength: 40 }), fc.nat(400), (changes, cut) => {
          const other = payload.slice(0, payload.length - (cut > 200 ? cut - 200 : 0));
          for (const [at, byte] of changes) if (at < other.length) other[at] = byte;
          const result = decodePayload(other, scope);
          if (result.ok) expect(valuesOf(result.value.delta).every(Number.isFinite)).toBe(true);
        }),
      );
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 300 }), (body) => {
          decodePayload(
            Uint8Array.of(...payload.subarray(0, PAYLOAD_HEADER_BYTES), ...body),
            scope,
          );
        }),
        { numRuns: 300 },
      );
    });

    test('levels that are negative, not finite or not normal are refused', () => {
      const scope = scopeOf(40);
      const { payload } = encode(drawnDelta(40), scope);
      for (const level of [0x8000, 0xbf80, 0x7f80, 0x7fc0, 0xffff, 0x0001, 0x007f]) {
        const other = payload.slice();
        other.set([level & 255, level >> 8], PAYLOAD_HEADER_BYTES);
        expect(decodePayload(other, scope)).toMatchObject({
          ok: false,
          issue: { code: 'bad-level' },
        });
      }
    });
  });
}
