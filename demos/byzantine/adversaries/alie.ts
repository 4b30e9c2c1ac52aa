/** A little is enough (arXiv 1902.06156): as far from the mean of the honest as many of them are, all to the same side. */
import { type Adversary, meanOf, plus, spreadOf } from './adversary.ts';

const DEVIATIONS = 1.5;

export const alie: Adversary = {
  name: 'alie',
  says: 'send the mean of what honest workers send, less one and a half standard deviations of each value',
  trains: false,
  delta: ({ honest }) => plus(meanOf(honest), spreadOf(honest), -DEVIATIONS),
};
