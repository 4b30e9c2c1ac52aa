/** `npm run bench:placement`: how evenly many objects are placed, what a leaver moves, and how long it takes. */
import { performance } from 'node:perf_hooks';
import { sha256Hex, utf8 } from 'nostrain/base';
import type { Holder, PlacementPolicy } from 'nostrain/run';
import { place } from '../../src/consensus/placement/place.ts';

const SEEDS = 5;
const regions = ['africa', 'america', 'asia', 'europe', 'oceania'];
const tiers = ['anchored', 'known', 'open'];

const fleet = (count: number, seed: number): readonly Holder[] =>
  Array.from({ length: count }, (_, i) => ({
    key: sha256Hex(utf8(`${seed}/${i}`)),
    region: regions[Math.floor(i / 4) % 5]!,
    tier: tiers[Math.floor(i / 8) % 3]!,
    weight: 1 + (i % 4),
    classes: [],
    attested: {},
  }));

const policyOf = (replicas: number, maxOverShare: number): PlacementPolicy => ({
  ...{ onUnsatisfiable: 'fail', regions: [], tiers: [], attestors: [], maxOverShare },
  objects: {
    chunk: {
      ...{ replicas, minDistinct: { regions: 3, tiers: 2 }, attested: [] },
      only: { regions: [], tiers: [] },
    },
  },
});

function placed(policy: PlacementPolicy, holders: readonly Holder[], seed: number, count: number) {
  const id = sha256Hex(utf8(`list ${seed}`));
  const made = place(policy, holders, { id, count, name: 'chunk' });
  if (!made.ok) throw new Error('not satisfied');
  return made.holders;
}

function row(count: number, nodes: number, replicas: number, over: number): string {
  const policy = policyOf(replicas, over);
  let [most, least, moved, ms] = [0, Number.POSITIVE_INFINITY, 0, 0];
  for (let seed = 0; seed < SEEDS; seed++) {
    const holders = fleet(nodes, seed);
    const begun = performance.now();
    const before = placed(policy, holders, seed, count);
    ms += (performance.now() - begun) / SEEDS;
    const loads = new Map<string, number>();
    for (const key of before.flat()) loads.set(key, (loads.get(key) ?? 0) + 1);
    const total = holders.reduce((sum, { weight }) => sum + weight, 0);
    const share = ({ weight }: Holder) => (replicas * count * weight) / total;
    const parts = holders.map((each) => (loads.get(each.key) ?? 0) / share(each));
    most = Math.max(most, ...parts);
    least = Math.min(least, ...parts);
    for (const gone of holders.slice(0, 4)) {
      const left = holders.filter((each) => each !== gone);
      const after = placed(policy, left, seed, count);
      const moves = after.reduce(
        (sum, keys, i) => sum + keys.filter((key) => !before[i]!.includes(key)).length,
        0,
      );
      moved = Math.max(moved, moves / share(gone));
    }
  }
  const numbers = [most.toFixed(2), least.toFixed(2), moved.toFixed(2), `${ms.toFixed(0)} ms`];
  return `| ${[count, nodes, replicas, `${over} %`, ...numbers].join(' | ')} |`;
}

console.log(
  '| objects | holders | replicas | max_over_share | most of a share | least | moved by a leaver | time |',
);
for (const over of [15, 1000]) {
  console.log(row(10_000, 200, 5, over));
  console.log(row(10_000, 200, 3, over));
}
console.log(row(1000, 40, 5, 15));
