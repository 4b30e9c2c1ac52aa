/** Trains as it should on a text whose every second token is another one, so that what follows what is wrong. */
import type { Adversary } from './adversary.ts';

export const labelShift: Adversary = {
  name: 'label-shift',
  says: 'train on a text in which every second token is the next one of the vocabulary',
  trains: true,
  poison: (shard, vocabulary) =>
    shard.map((token, i) => (i % 2 === 1 ? (token + 1) % vocabulary : token)),
};
