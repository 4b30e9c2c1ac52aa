/** Dense text: every byte string has one spelling, which no JSON writer escapes, and a full one fits an event of 64 KiB. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { fromHex, toHex } from 'nostrain/base';
import { createPacker, createSigner } from 'nostrain/network';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { describe, expect, test } from 'vitest';
import { DENSE_LETTERS, denseLength, denseText } from '../../../kinds/_dense.ts';
import { INSIDE_BYTES, manifest } from '../../../kinds/manifest.ts';
import { fromDense, toDense } from '../../../src/network/wire/dense-text.ts';
import { readManifest } from '../../../src/network/wire/manifests.ts';
import { buildManifest } from '../../../src/network/wire/native-profile.ts';
import { drawnBytes } from '../../support/drawn-bytes.ts';
import { readVectors } from '../../support/vectors.ts';

const { dense } = readVectors<{ dense: readonly { bytes: string; text: string }[] }>(
  'trellis.json',
);
const LAST = DENSE_LETTERS.at(-1)!;

test('89 letters, of which JSON writers escape none', () => {
  expect(new Set(DENSE_LETTERS).size).toBe(89);
  expect(DENSE_LETTERS).toMatch(/^[!-~]+$/);
  // as Go and .NET write JSON for HTML
  expect(DENSE_LETTERS).not.toMatch(/["\\<>& ]/);
});

test.each(dense)('text of another program: $bytes', ({ bytes, text }) => {
  expect(toDense(fromHex(bytes)!)).toBe(text);
  expect(toHex(fromDense(text, bytes.length / 2)!)).toBe(bytes);
});

test('bytes come back, in whole blocks', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 100 }), (bytes) => {
      const text = toDense(bytes);
      expect(denseText.read(text)).toBe(text);
      expect(text).toHaveLength(denseLength(bytes.length));
      expect(fromDense(text, bytes.length)).toEqual(bytes);
    }),
  );
});

test('a second spelling is refused', () => {
  const text = toDense(Uint8Array.of(1, 2, 3));
  // padding that is not zero
  expect(fromDense(text, 2)).toBeUndefined();
  // 2^168, and the largest number that 26 letters can say
  const over = 2n ** 168n;
  const lettersOf = (value: bigint) =>
    Array.from(
      { length: 26 },
      (_, i) => DENSE_LETTERS[Number((value / 89n ** BigInt(25 - i)) % 89n)],
    );
  expect(fromDense(lettersOf(over - 1n).join(''), 21)).toEqual(new Uint8Array(21).fill(255));
  expect(fromDense(lettersOf(over).join(''), 21)).toBeUndefined();
  expect(fromDense(LAST.repeat(26), 21)).toBeUndefined();
});

test.each(['', 'short', `${'!'.repeat(25)}"`, `${'!'.repeat(25)} `, `${'!'.repeat(25)}é`])(
  'is no dense text: %j',
  (text) => {
    expect(denseText.read(text)).toBeUndefined();
  },
);

const signer = createSigner(new Uint8Array(32).fill(5));
const hex = '0'.repeat(64);
const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_600_000 };
const made = (payload: Uint8Array, run = 'friends', codec = 'trellis-251') => {
  const fields = { run, round: 9999, parent: hex, base: hex, codec, roster: hex, prev: hex };
  return buildManifest({ ...fields, examples: 99_999, steps: 9999 }, payload, lifetime);
};

describe('a manifest', () => {
  test.each([
    [45_056, 'payload'],
    [45_057, 'dense'],
    [INSIDE_BYTES, 'dense'],
  ])('carries a payload of %d bytes as %s', (length, member) => {
    const payload = drawnBytes(length);
    const event = signer.sign(made(payload).draft);
    expect(JSON.parse(event.content)).toHaveProperty(member);
    const read = readManifest(event);
    expect(read.ok && read.value.payload).toEqual(payload);
  });

  test('leaves a larger payload to chunks', () => {
    const { draft } = made(drawnBytes(INSIDE_BYTES + 1));
    expect(manifest.parse(signer.sign(draft))).toMatchObject({ ok: true });
    expect(JSON.parse(draft.content)).not.toHaveProperty('dense');
  });

  test('with half a bit a value of the small GPT fits 65,536 bytes, as a message', async () => {
    const layout = createLayout([{ name: 'a', shape: [834_048] }]);
    const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest();
    for (const run of ['gpt', 'a run with a long name, of friends in winter', '"\\é']) {
      const packer = createPacker({ run, layout, packing: 'trellis', sha256 });
      const chunks = Uint32Array.from({ length: 204 }, (_, i) => i);
      const assignment = { most: 204, digest: undefined, chunksOf: () => chunks };
      const context = { round: 1, worker: signer.publicKey, assignment } as never;
      const delta = new Float64Array(layout.size);
      const { payload, codec } = packer.pack(delta, context);
      expect((8 * (payload.length - 84 - 2 * 204)) / (204 * CHUNK_LENGTH)).toBeGreaterThan(0.487);
      const message = JSON.stringify(['EVENT', signer.sign(made(payload, run, codec).draft)]);
      expect(Buffer.byteLength(message)).toBeLessThanOrEqual(65_536);
      expect(Buffer.byteLength(message)).toBeGreaterThan(65_536 - 500);
    }
  });

  test('is refused with dense text of another length, of a small payload, or with a payload', () => {
    const { draft } = made(drawnBytes(50_000));
    const judged = (change: object) => {
      const content = JSON.stringify({ ...JSON.parse(draft.content), ...change });
      return manifest.parse(signer.sign({ ...draft, content })).ok;
    };
    expect(judged({})).toBe(true);
    expect(judged({ bytes: 49_900 })).toBe(false);
    expect(judged({ bytes: 51_900 })).toBe(false);
    const small = toDense(drawnBytes(40_000));
    expect(judged({ bytes: 40_000, dense: small })).toBe(false);
    expect(judged({ need: 2, shards: [hex, hex, hex] })).toBe(false);
  });

  test('is refused if its dense text is not canonical', () => {
    const { draft } = made(drawnBytes(50_000));
    const content = JSON.parse(draft.content);
    content.dense = `${content.dense.slice(0, -26)}${LAST.repeat(26)}`;
    const read = readManifest(signer.sign({ ...draft, content: JSON.stringify(content) }));
    expect(read).toMatchObject({ ok: false, rejection: { detail: 'not canonical dense text' } });
  });
});
