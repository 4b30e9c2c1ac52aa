/** Pushes the model the same way in every round, ten times as far as honest workers go. */
import { type Adversary, honestNorm, noiseOf } from './adversary.ts';

export const constantDirection: Adversary = {
  name: 'constant-direction',
  says: 'push the same way in every round, ten times as far as honest workers go',
  trains: false,
  delta: (scene) => noiseOf(scene, 'direction', 10 * honestNorm(scene)),
};
