/** `npm run bench:storm`: what newcomers who come at once cost the one who has the file, and each other; on a clock that moves by itself. */
import { storm } from '../support/storm.ts';

const at = (values: readonly number[], share: number): number =>
  values[Math.min(values.length - 1, Math.floor(share * values.length))]!;

console.log('| newcomers | each knows | seeder sends | a newcomer sends: median | most | has it after: median | last |'); // biome-ignore format: one line
for (const [joiners, known] of [
  [1, 0],
  [10, 9],
  [50, 49],
  [100, 99],
  [100, 8],
] as const) {
  // biome-ignore format: one line
  const { isWhole, missing, times, seeder, sent } = await storm({ joiners, known });
  if (!isWhole || missing > 0) throw new Error(`${missing} chunks are missing`);
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  console.log(
    `| ${[
      joiners,
      known,
      `${seeder.toFixed(2)} x`,
      `${at(sent, 0.5).toFixed(2)} x`,
      `${at(sent, 1).toFixed(2)} x`,
      seconds(at(times, 0.5)),
      seconds(at(times, 1)),
    ].join(' | ')} |`,
  );
}
