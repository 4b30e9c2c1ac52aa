/** Sends bytes that are no payload, or hardly one: cut off, too long, of another size, with scales that are no numbers, or random. */
import type { Adversary } from './adversary.ts';

type Bomb = (bytes: Uint8Array, draw: () => number) => Uint8Array;

const bombs: readonly Bomb[] = [
  (bytes) => bytes.subarray(0, bytes.length >> 1),
  (bytes) => Uint8Array.from([...bytes, 0]),
  (bytes) => bytes.map((byte, i) => (i < 16 ? byte ^ 0xff : byte)),
  // every scale of 16 bits or more in it is infinite or no number
  (bytes) => bytes.map((byte, i) => (i < bytes.length - 4096 ? byte : 0xff)),
  (bytes, draw) => bytes.map(() => Math.abs(Math.round(100 * draw())) & 0xff),
  () => new Uint8Array(),
];

export const formatBomb: Adversary = {
  name: 'format-bomb',
  says: 'send bytes that are no payload: cut off, too long, of another size, full of infinities, or random',
  trains: true,
  payload: (bytes, { round, index, normals }) =>
    bombs[(round + index) % bombs.length]!(bytes, normals(`bomb ${round} ${index}`)),
};
