/** Rows for tests of aggregation rules, and the vectors of test/vectors/make_rules.py. */
import type { Row } from 'nostrain/consensus';
import { dense, readVectors } from './vectors.ts';

/** The generator of make_decoders.py: 16 bits a draw. */
export function drawsOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(1_664_525, state) + 1_013_904_223) >>> 0;
    return state >>> 16;
  };
}

/** A row of worker i. */
export const ruleRow = (i: number, values: ArrayLike<number>) => {
  const id = String(i).padStart(2, '0');
  const delta = dense(values);
  const row: Row = { worker: id, id, late: false, delta, weight: 1, scale: 1 };
  return { ...row, values: Array.from(values) };
};

interface Vectors {
  readonly cases: number;
  readonly results: Readonly<Record<string, string>>;
}

/** Results of a rule, case after case. */
export function rulesVectors() {
  const { cases, results } = readVectors<Vectors>('rules.json');
  return {
    cases,
    resultsOf(name: string, precision: 'float64' | 'float32'): Float64Array {
      const bytes = Uint8Array.from(Buffer.from(results[name]!, 'base64')).buffer;
      return precision === 'float64'
        ? new Float64Array(bytes)
        : Float64Array.from(new Float32Array(bytes));
    },
  };
}
