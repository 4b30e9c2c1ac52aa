/**
 * Generates hostile payloads: mutated valid ones of every codec, and noise. The same seed gives the same payloads in
 * any engine.
 */

import type { Result } from 'nostrain/base';
import { decodePayload, encodePayload, PAYLOAD_HEADER_BYTES, type Packing } from 'nostrain/network';
import { decodeNstr, encodeNstr } from 'nostrain/python/parts';
import { CHUNK_LENGTH, createLayout, type PartialVector, partialOf } from 'nostrain/tensor';
import { inflate } from 'pako';
import { sealContainer } from '../../src/python/codec/container.ts';
import { drawnDelta, scopeOf } from './drawn-delta.ts';

/** Every codec, trellis codes with few, many and the most bits. */
export const packings: readonly Packing[] = [
  { codec: 'int8', kept: 0 },
  ...[40, 250, 1024].map((kept) => ({ codec: 'trellis' as const, kept })),
];

/** Integers from 0 to below the number given. */
type Draw = (below: number) => number;

/** A linear congruential generator. */
function createDraw(seed: number): Draw {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A payload and how its receiver judges it. */
export interface FuzzedPayload {
  readonly bytes: Uint8Array;
  /** Parameters that the receiver expects. */
  readonly size: number;
  readonly format: 'nspl' | 'nstr';
  readonly decode: () => Result<PartialVector>;
}

const SIZES = [1, 61, 700, CHUNK_LENGTH + 30];
/** Header bytes that matter most: version, codec, kept, and the counts. */
const MARKED = [4, 5, 5, 6, 7, 8, 12, 15, 16, 19];
const EDGES = [0, 1, 0x7f, 0x80, 0xff];

/** Changes, cuts, grows or refills a copy, one to three times. */
function mutate(original: Uint8Array, header: number, draw: Draw): Uint8Array {
  let bytes = original.slice();
  for (let left = 1 + draw(3); left > 0 && bytes.length > 0; left--) {
    const at = draw(bytes.length);
    const inBody = Math.min(bytes.length - 1, header + draw(Math.max(1, bytes.length - header)));
    const kind = draw(8);
    if (kind === 0) bytes[at] = bytes[at]! ^ (1 << draw(8));
    else if (kind === 1) bytes[inBody] = bytes[inBody]! ^ (1 << draw(8));
    else if (kind === 2) bytes[inBody] = EDGES[draw(EDGES.length)]!;
    else if (kind === 3) bytes[MARKED[draw(MARKED.length)]! % bytes.length] = draw(256);
    else if (kind === 4) bytes = bytes.slice(0, at);
    else if (kind === 5) bytes = Uint8Array.of(...bytes, ...noise(1 + draw(9), draw));
    else if (kind === 6) bytes.set(noise(Math.min(16, bytes.length - inBody), draw), inBody);
    else bytes.copyWithin(inBody, at);
  }
  return bytes;
}

const noise = (length: number, draw: Draw): Uint8Array =>
  Uint8Array.from({ length }, () => draw(256));

/** Mutants of compact payloads, whole ones now and then, or noise behind a good header or none. */
function nsplMaker(draw: Draw): () => FuzzedPayload {
  const originals = SIZES.flatMap((size) => {
    const scope = scopeOf(size);
    const delta = drawnDelta(size);
    return packings.map((packing) => encodePayload(delta, packing, scope).payload);
  });
  const scopes = SIZES.flatMap((size) => packings.map(() => scopeOf(size)));
  return () => {
    const pick = draw(originals.length);
    const scope = scopes[pick]!;
    const original = originals[pick]!;
    const kind = draw(20);
    let bytes = original;
    if (kind === 1) bytes = noise(draw(300), draw);
    else if (kind < 4)
      bytes = Uint8Array.of(
        ...original.subarray(0, PAYLOAD_HEADER_BYTES),
        ...noise(draw(99), draw),
      );
    else if (kind > 4) bytes = mutate(original, PAYLOAD_HEADER_BYTES, draw);
    return {
      bytes,
      size: scope.size,
      format: 'nspl',
      decode() {
        const result = decodePayload(bytes, scope);
        return result.ok ? { ok: true, value: result.value.delta } : result;
      },
    };
  };
}

/** Mutants of the reference's payloads: of the container, or of the block, sealed again. */
function nstrMaker(draw: Draw): () => FuzzedPayload {
  const layout = createLayout([
    { name: 'a', shape: [7, 9] },
    { name: 'b', shape: [30] },
  ]);
  const limits = { layout, maxContainerBytes: 2048 };
  const containers = [0.1, 0.5, 1].map(
    (ratio) => encodeNstr({ layout, values: drawnDelta(layout.size) }, { ratio }).container,
  );
  const blocks = containers.map((container) => inflate(container.subarray(6)));
  return () => {
    const pick = draw(containers.length);
    const kind = draw(10);
    let bytes = containers[pick]!;
    if (kind === 1) bytes = noise(draw(100), draw);
    else if (kind < 5) bytes = mutate(bytes, 6, draw);
    else if (kind > 5) bytes = sealContainer(mutate(blocks[pick]!, 53, draw)).container;
    return {
      bytes,
      size: layout.size,
      format: 'nstr',
      decode() {
        const result = decodeNstr(bytes, limits);
        return result.ok ? { ok: true, value: partialOf(result.value.delta) } : result;
      },
    };
  };
}

/** This many fuzzed payloads, every tenth of them in the reference's format. */
export function* fuzzedPayloads(count: number, seed: number): Generator<FuzzedPayload> {
  const draw = createDraw(seed);
  const [nspl, nstr] = [nsplMaker(draw), nstrMaker(draw)];
  for (let i = 0; i < count; i++) yield i % 10 === 9 ? nstr() : nspl();
}
