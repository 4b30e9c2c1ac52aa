/** Sends noise ten times as long as what honest workers send. */
import { type Adversary, honestNorm, noiseOf } from './adversary.ts';

export const noise: Adversary = {
  name: 'noise',
  says: 'send noise ten times as long as what honest workers send',
  trains: false,
  delta: (scene) => noiseOf(scene, `noise ${scene.round} ${scene.index}`, 10 * honestNorm(scene)),
};
