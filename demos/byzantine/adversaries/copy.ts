/** Does no work: sends what another worker learned, with a little noise over it. */
import { type Adversary, noiseOf, norm, plus } from './adversary.ts';

export const copy: Adversary = {
  name: 'copy',
  says: 'do no work and send what another worker learned, with a little noise over it',
  trains: false,
  delta(scene) {
    const { honest, index, round } = scene;
    const other = honest[(1 + index) % honest.length]!;
    return plus(other, noiseOf(scene, `copy ${round} ${index}`, 0.1 * norm(other)), 1);
  },
};
