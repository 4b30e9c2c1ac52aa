/** Sends again what it learned three rounds ago. */
import type { Adversary } from './adversary.ts';

const ROUNDS = 3;

export const stale: Adversary = {
  name: 'stale',
  says: 'send what they learned three rounds ago',
  trains: true,
  delta: ({ own, past }) => (past.at(-ROUNDS) ?? past[0] ?? own).slice(),
};
