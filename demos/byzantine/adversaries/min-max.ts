/** Min-max (Shejwalkar and Houmansadr, NDSS 2021): as far against the honest mean as no distance gives it away. */
import { type Adversary, meanOf, norm, plus } from './adversary.ts';

const HALVINGS = 20;

export const minMax: Adversary = {
  name: 'min-max',
  says: 'go against the mean of what honest workers send as far as two honest ones lie apart',
  trains: false,
  delta({ honest }) {
    const mean = meanOf(honest);
    const length = norm(mean) || 1;
    const against = mean.map((value) => -value / length);
    const apart = (a: Float64Array, b: Float64Array) => norm(plus(a, b, -1));
    const most = Math.max(...honest.flatMap((a) => honest.map((b) => apart(a, b))));
    let [low, high] = [0, 10 * (most + length)];
    for (let step = 0; step < HALVINGS; step++) {
      const middle = (low + high) / 2;
      const reach = plus(mean, against, middle);
      if (Math.max(...honest.map((each) => apart(each, reach))) <= most) low = middle;
      else high = middle;
    }
    return plus(mean, against, low);
  },
};
