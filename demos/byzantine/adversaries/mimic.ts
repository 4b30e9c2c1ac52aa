/** All hostile workers send what one honest worker does (arXiv 2006.09365), so that its data count for more than those of others. */
import type { Adversary } from './adversary.ts';

export const mimic: Adversary = {
  name: 'mimic',
  says: 'send what the first honest worker sends',
  trains: false,
  delta: ({ honest }) => honest[0]!.slice(),
};
