/**
 * Random rotation of chunks before rounding: a Hadamard transform of values with random signs (EDEN, arXiv 2108.08842),
 * so that rounding loses noise and no small values. The same bits in every engine.
 */
import { type Key, philox } from '../../base/rng.ts';
import { CHUNK_LENGTH, chunkLength, type PartialVector } from '../../tensor/partial-vector.ts';
import type { PayloadScope } from './codecs.ts';

/** How many numbers stand for n values, 1 to 4096: the power of two from there on. */
export function turnedLength(n: number): number {
  let length = 1;
  while (length < n) length *= 2;
  return length;
}

/** Turns the values of a chunk, in place: `room` holds them first, and zeros after them. */
export function turn(room: Float64Array, chunk: number, scope: PayloadScope): void {
  flip(room, chunk, scope);
  transform(room, Math.ceil);
}

/** The values that were turned, in place; exactly those that `turn` took but for rounding. */
export function turnBack(room: Float64Array, chunk: number, scope: PayloadScope): void {
  transform(room, Math.floor);
  flip(room, chunk, scope);
}

const workRoom = new Float64Array(CHUNK_LENGTH);

/** A delta whose chunks come turned, as the values they stand for. */
export function turnedBack(
  turned: Pick<PartialVector, 'addChunk'>,
  scope: PayloadScope,
): Pick<PartialVector, 'addChunk'> {
  return {
    addChunk(position, weight, target, at) {
      const chunk = scope.chunks[position]!;
      const n = chunkLength(scope.size, chunk);
      const room = workRoom.subarray(0, turnedLength(n)).fill(0);
      turned.addChunk(position, 1, room, 0);
      turnBack(room, chunk, scope);
      for (let i = 0; i < n; i++) target[at + i] = target[at + i]! + weight * room[i]!;
    },
  };
}

/** Walsh-Hadamard transform in place, two levels at a time; divided by `half` of the length, as a power of two. */
function transform(room: Float64Array, half: (power: number) => number): void {
  const { length } = room;
  let powers = 0;
  while (1 << powers < length) powers++;
  let apart = 1;
  if (powers % 2 === 1) {
    for (let i = 0; i < length; i += 2) {
      const a = room[i]!;
      const b = room[i + 1]!;
      room[i] = a + b;
      room[i + 1] = a - b;
    }
    apart = 2;
  }
  for (; apart < length; apart *= 4) {
    for (let from = 0; from < length; from += 4 * apart) {
      const end = from + apart;
      for (let i = from; i < end; i++) twoLevels(room, i, apart);
    }
  }
  const scale = 2 ** -half(powers / 2);
  for (let i = 0; i < length; i++) room[i] = room[i]! * scale;
}

function twoLevels(room: Float64Array, i: number, apart: number): void {
  const a = room[i]!;
  const b = room[i + apart]!;
  const c = room[i + 2 * apart]!;
  const d = room[i + 3 * apart]!;
  const near = a + b;
  const nearOff = a - b;
  const far = c + d;
  const farOff = c - d;
  room[i] = near + far;
  room[i + apart] = nearOff + farOff;
  room[i + 2 * apart] = near - far;
  room[i + 3 * apart] = nearOff - farOff;
}

const wordOf = (bytes: Uint8Array, at: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true);

/** Flips the signs drawn for a sender's chunk of a round, so that what senders lose in rounding is independent. */
function flip(room: Float64Array, chunk: number, { run, round, sender }: PayloadScope): void {
  const word = (at: number) => wordOf(run, at) ^ wordOf(sender, at);
  const key: Key = [word(0), word(4)];
  for (let at = 0; at < room.length; at += 128) {
    const words = philox(key, round, chunk, at / 128, 0);
    const end = Math.min(room.length, at + 128);
    for (let i = at; i < end; i++) {
      if (((words[(i - at) >>> 5]! >>> (i & 31)) & 1) === 1) room[i] = -room[i]!;
    }
  }
}
