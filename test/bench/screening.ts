/**
 * What screening costs a member: seconds to measure the contributions of a round, each on 32 rows (16 of more than 16 contributions), beside a round of 60 seconds.
 *
 *   npm run bench:screening -- [--threads <physical cores>] [--contributions 8 --contributions 32]
 */
import { parseArgs } from 'node:util';
import { deriveKey } from 'nostrain/base';
import { gainOf, rowsFor } from 'nostrain/certified/parts';
import { initialParameters } from 'nostrain/model';
import { createTrainer } from 'nostrain/node';
import { physicalCores } from 'nostrain/node/parts';
import type { OptimizerSpec } from 'nostrain/run';
import { chainCorpus, charGpt } from '../support/ort-models.ts';
import { dense } from '../support/vectors.ts';

const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: String(physicalCores()) },
    contributions: { type: 'string', multiple: true, default: ['8', '32'] },
  },
});
const optimizer: OptimizerSpec = {
  ...{ optimizer: 'adamw', clipNorm: 1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 },
  schedule: { learningRate: 3e-4, warmupSteps: 0, totalSteps: 0, finalShare: 1 },
};
const text = chainCorpus(100_000, 95);
const trainer = await createTrainer({
  ...{ model: charGpt, optimizer, batch: 32, device: 'cpu', threads: Number(values.threads) },
  data: { kind: 'tokens', shard: text, validation: text },
});
const params = initialParameters(charGpt, 1);
const delta = dense(params.map((value) => value / 100));
const lossesOn = (rows: number) => (at: ArrayLike<number>) =>
  trainer.measure!(at as Float32Array, 'shard', { key: deriveKey('bench', rows), rows });
await lossesOn(32)(params);
for (const count of values.contributions.map(Number)) {
  const rows = rowsFor(count);
  const losses = lossesOn(rows);
  const [startMs, cpu] = [performance.now(), process.cpuUsage()];
  const before = await losses(params);
  for (let i = 0; i < count; i++) await gainOf(params, { delta }, before, losses);
  const wall = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const busy = (user + system) / 1e6;
  console.log(
    `${count} contributions of ${params.length} values on ${rows} rows: ${wall.toFixed(2)} s, ${busy.toFixed(2)} s of processors, ${((100 * wall) / 60).toFixed(1)} % of 60 s`,
  );
}
await trainer.close();
