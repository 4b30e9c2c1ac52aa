/** Does no work and sends nothing but zeros. */
import type { Adversary } from './adversary.ts';

export const zero: Adversary = {
  name: 'zero',
  says: 'send zeros',
  trains: false,
  delta: ({ own }) => new Float64Array(own.length),
};
