/**
 * Where a step goes: the gradient of one replica's part of a batch, by ONNX Runtime's own profiler, one thread. Every node counts with its
 * fastest run, so that the sum says what a quiet machine takes even while others use it.
 *
 *   npm run bench:step-ops -- [--config char-gpt] [--rows 16] [--runs 24] [--shapes 20]
 */
import { parseArgs } from 'node:util';
import { isConfig, type ProfiledNode, profileGradient } from './step/profile.ts';

const { values: flags } = parseArgs({
  options: {
    config: { type: 'string', default: 'char-gpt' },
    rows: { type: 'string', default: '16' },
    runs: { type: 'string', default: '24' },
    shapes: { type: 'string', default: '20' },
  },
});

if (!isConfig(flags.config)) throw new Error(`unknown: ${flags.config}`);
const nodes = await profileGradient(flags.config, Number(flags.rows), Number(flags.runs));
const all = nodes.reduce((sum, { micros }) => sum + micros, 0);
console.log(
  `${flags.config}, ${flags.rows} rows: ${(all / 1000).toFixed(1)} ms, ${nodes.length} nodes`,
);
print(({ op }) => op, Number.POSITIVE_INFINITY);
print(({ op, shapes }) => `${op} ${shapes}`, Number(flags.shapes));

/** Sums by a name, largest first. */
function print(nameOf: (node: ProfiledNode) => string, most: number): void {
  const sums = new Map<string, { micros: number; count: number }>();
  for (const node of nodes) {
    const sum = sums.get(nameOf(node)) ?? { micros: 0, count: 0 };
    sums.set(nameOf(node), { micros: sum.micros + node.micros, count: sum.count + 1 });
  }
  const rows = [...sums].sort(([, a], [, b]) => b.micros - a.micros).slice(0, most);
  for (const [name, { micros, count }] of rows) {
    const ms = (micros / 1000).toFixed(2).padStart(8);
    console.log(`${ms} ms ${String(count).padStart(4)} × ${name.slice(0, 90)}`);
  }
}
