/** Bucketing (arXiv 2006.09365): rows in an order that nobody could foresee, each two of them as their mean, before any rule. */
import { utf8 } from '../../base/bytes.ts';
import { sha256Hex } from '../../base/hash.ts';
import { BUCKET_ROWS } from '../../run/aggregation.ts';
import type { Mixes } from './distances.ts';
import type { Row } from './mean.ts';

/** `seed` is what nobody knew when the rows were sent, such as the entropy of the round. */
export function bucketsOf(rows: readonly Pick<Row, 'worker' | 'id'>[], seed: string): Mixes {
  const drawn = rows.map(({ worker, id }, i) => ({
    i,
    draw: sha256Hex(utf8(`nostrain/bucketing\n${seed}\n${worker}\n${id}`)),
  }));
  const order = drawn.sort((a, b) => (a.draw < b.draw ? -1 : 1)).map(({ i }) => i);
  return Array.from({ length: Math.ceil(rows.length / BUCKET_ROWS) }, (_, bucket) => {
    const members = order.slice(bucket * BUCKET_ROWS, (bucket + 1) * BUCKET_ROWS);
    const weights = new Float64Array(rows.length);
    for (const i of members) weights[i] = 1 / members.length;
    return weights;
  });
}
