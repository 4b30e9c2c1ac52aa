/** A loss curve in bounded memory: when it is full, neighbouring points are averaged (downsampling). */

export interface Curve {
  /** Finished points, each the mean of `stride` values. */
  readonly points: readonly number[];
  readonly stride: number;
  /** Sum and number of the values after the last finished point. */
  readonly sum: number;
  readonly count: number;
}

const MAX_POINTS = 128;

export const emptyCurve: Curve = { points: [], stride: 1, sum: 0, count: 0 };

export function addPoint(curve: Curve, value: number): Curve {
  const sum = curve.sum + value;
  const count = curve.count + 1;
  if (count < curve.stride) return { ...curve, sum, count };
  const points = [...curve.points, sum / count];
  if (points.length < MAX_POINTS) return { ...curve, points, sum: 0, count: 0 };
  const halved = Array.from(
    { length: MAX_POINTS / 2 },
    (_, i) => (points[2 * i]! + points[2 * i + 1]!) / 2,
  );
  return { points: halved, stride: 2 * curve.stride, sum: 0, count: 0 };
}

/** All points, the unfinished one included. */
export const pointsOf = ({ points, sum, count }: Curve): readonly number[] =>
  count === 0 ? points : [...points, sum / count];
