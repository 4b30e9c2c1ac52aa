import fc from 'fast-check';
import { merklePath } from 'nostrain/base';
import {
  chunkTree,
  createAssembly,
  type PayloadRoot,
  splitChunks,
  verifyChunk,
} from 'nostrain/network';
import { expect, test } from 'vitest';
import { isSent, type VerifiedChunk } from '../../../src/network/chunks/payload.ts';

const SIZE = 45_056;
const payload = Uint8Array.from({ length: 6 * SIZE + 100 }, (_, i) => i ^ (i >>> 8));
const tree = chunkTree(payload);

const chunksOf = (bytes: Uint8Array): readonly VerifiedChunk[] => {
  const whole = chunkTree(bytes);
  return splitChunks(bytes).map((data, index) => {
    const source = { root: whole.root, bytes: bytes.length, index, path: merklePath(whole, index) };
    const verified = verifyChunk({ ...source, data });
    if (!verified.ok) throw new Error(verified.issue.message);
    return verified.value;
  });
};
const chunks = chunksOf(payload);

function assemblyOf(what: PayloadRoot, maxBytes = 1 << 20) {
  const made = createAssembly(what, { maxBytes });
  if (!made.ok) throw new Error(made.issue.code);
  return made.value;
}

test('order and repeats do not matter; what is missing is said', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(chunks.length - 1), { maxLength: 30 }), (arrivals) => {
      const assembly = assemblyOf(tree);
      arrivals.forEach((index, i) => {
        const isNew = !arrivals.slice(0, i).includes(index);
        expect(assembly.add(chunks[index]!)).toEqual({ ok: true, value: isNew });
      });
      const missing = [...chunks.keys()].filter((index) => !arrivals.includes(index));
      expect(assembly.received).toBe(chunks.length - missing.length);
      const result = assembly.result();
      if (missing.length > 0) expect(result).toEqual({ ok: false, missing });
      else expect(result.ok && Buffer.compare(result.bytes, payload)).toBe(0);
    }),
    { numRuns: 50 },
  );
});

test('chunks of zeros need not arrive: their neighbours prove them, and no other chunk', () => {
  const drawn = fc.record({
    filled: fc.array(fc.boolean(), { minLength: 1, maxLength: 11 }),
    last: fc.integer({ min: 1, max: SIZE }),
    order: fc.infiniteStream(fc.nat(1000)),
  });
  fc.assert(
    fc.property(drawn, ({ filled, last, order }) => {
      const bytes = new Uint8Array((filled.length - 1) * SIZE + last);
      filled.forEach((is, i) => {
        if (is) bytes[i * SIZE] = i + 1;
      });
      const all = chunksOf(bytes);
      const sent = all.filter(({ data, index }) => isSent(data, index));
      expect(sent.map(({ index }) => index)).toEqual(
        [...filled.keys()].filter((i) => i === 0 || filled[i]),
      );
      const assembly = assemblyOf(all[0]!);
      const arrived = new Set<number>();
      while (sent.length > 0) {
        const [chunk] = sent.splice(order.next().value % sent.length, 1);
        assembly.add(chunk!);
        arrived.add(chunk!.index);
        for (const [i, is] of filled.entries())
          if (is) expect(assembly.has(i)).toBe(arrived.has(i));
      }
      const result = assembly.result();
      expect(result.ok && Buffer.compare(result.bytes, bytes)).toBe(0);
    }),
    { numRuns: 20 },
  );
});

test('the last chunk completes it', () => {
  const assembly = assemblyOf(tree);
  for (const chunk of chunks.toReversed()) {
    expect(assembly.result().ok).toBe(false);
    assembly.add(chunk);
  }
  const result = assembly.result();
  expect(result.ok && Buffer.compare(result.bytes, payload)).toBe(0);
});

test('chunks of other payloads are refused, also of one that begins alike', () => {
  const assembly = assemblyOf(tree);
  const [other] = chunksOf(payload.subarray(0, 6 * SIZE + 99));
  expect(assembly.add(other!)).toMatchObject({ ok: false, issue: { code: 'other-payload' } });
  expect(assembly.received).toBe(0);
});

test('what arrived is kept, whatever its sender does with the bytes afterwards', () => {
  const small = chunksOf(payload.slice(0, 10))[0]!;
  const assembly = assemblyOf(small);
  assembly.add(small);
  small.data.fill(0);
  expect(assembly.result()).toEqual({ ok: true, bytes: payload.slice(0, 10) });
});

test('a payload over the limit is refused before anything is held', () => {
  expect(createAssembly(tree, { maxBytes: payload.length })).toMatchObject({ ok: true });
  expect(createAssembly(tree, { maxBytes: payload.length - 1 })).toMatchObject({
    ok: false,
    issue: { code: 'too-large' },
  });
});
