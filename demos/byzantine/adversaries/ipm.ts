/** Inner product manipulation (arXiv 1903.03936): all send the same, against the mean of the honest. */
import { type Adversary, meanOf } from './adversary.ts';

const FACTOR = 2;

export const ipm: Adversary = {
  name: 'ipm',
  says: 'send twice the mean of what honest workers send, with the sign turned',
  trains: false,
  delta: ({ honest }) => meanOf(honest).map((value) => -FACTOR * value),
};
