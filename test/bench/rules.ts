/**
 * How long aggregation rules take: CPU seconds of one thread for a round of N rows, payloads already decoded chunk by chunk. Each argument is
 * `PARAMETERS/ROWS`, or `PARAMETERS/ROWS/RULE` for one rule alone:
 *
 *   npm run bench:rules -- 834048/8 834048/32
 */

import { type Aggregation, leastRows, ruleForms, ruleNames, usualAggregation } from 'nostrain/run';
import { CHUNK_LENGTH, chunkCount, type PartialVector } from 'nostrain/tensor';
import { aggregate } from '../../src/consensus/aggregate/rules.ts';
import { drawsOf } from '../support/rule-rows.ts';

const POOL = 1 << 20;
const next = drawsOf(7);
const pool = Float32Array.from({ length: POOL }, () => (next() + next() - 65_536) / 2 ** 24);

/** Rows that need no room of their own: each reads the same draws from another place on. */
function rowOf(size: number, row: number): PartialVector {
  const chunks = Uint32Array.from({ length: chunkCount(size) }, (_, chunk) => chunk);
  return {
    size,
    chunks,
    addChunk(position, weight, target, at) {
      const from = position * CHUNK_LENGTH;
      const end = Math.min(CHUNK_LENGTH, size - from);
      const shift = (from + row * 7919 * 13) % (POOL - CHUNK_LENGTH);
      for (let i = 0; i < end; i++) target[at + i]! += pool[shift + i]! * weight;
    },
    weighChunk: () => undefined,
  };
}

function choices(rows: number): readonly Aggregation[] {
  const hostile = Math.floor(rows / 4);
  const plain = ruleNames.map(
    (rule): Aggregation => ({
      ...usualAggregation,
      rule,
      hostile: ruleForms[rule] === 'mean' ? 0 : hostile,
    }),
  );
  const mixed: readonly Aggregation[] = [
    { ...usualAggregation, rule: 'trimmed-mean', hostile, before: 'nnm' },
    { ...usualAggregation, rule: 'geometric-median', hostile, before: 'nnm' },
  ];
  return [...plain, ...mixed].filter((each) => leastRows(each) <= rows);
}

for (const argument of process.argv.slice(2)) {
  const [size = 0, count = 0, only] = argument.split('/');
  const rows = Array.from({ length: Number(count) }, (_, i) => ({
    ...{ worker: String(i).padStart(3, '0'), id: String(i), late: false, weight: 1, scale: 1 },
    delta: rowOf(Number(size), i),
  }));
  for (const aggregation of choices(rows.length)) {
    const { rule, before } = aggregation;
    const name = before === 'nothing' ? rule : `${before}+${rule}`;
    if (only !== undefined && only !== name) continue;
    const begun = process.cpuUsage();
    aggregate(rows, { size: Number(size), normalize: 'workers', aggregation });
    const { user } = process.cpuUsage(begun);
    console.log(`${size} parameters, ${count} rows, ${name}: ${(user / 1e6).toFixed(2)} s`);
  }
}
