/** Sends the opposite of what it learned, ten times as large. */
import type { Adversary } from './adversary.ts';

export const signFlip: Adversary = {
  name: 'sign-flip',
  says: 'send the opposite of what they learned, ten times as large',
  trains: true,
  delta: ({ own }) => own.map((value) => -10 * value),
};
