/** Signs two contributions for one round: whoever has both has the proof, and the key is out of the roster from the next outcome on. */
import type { Adversary } from './adversary.ts';
import { signFlip } from './sign-flip.ts';

export const equivocation: Adversary = {
  ...signFlip,
  name: 'equivocation',
  says: 'show some what they learned and others its opposite, ten times as large',
  equivocates: true,
};
