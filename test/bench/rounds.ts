/**
 * Plays many schedules of the round machine, then whole runs of four rounds:
 * `npm run check:rounds -- --schedules 100000 --runs 2000 --seed 1`. A breach is printed with
 * the setup and the seed that make it again, and the exit code is 1.
 */
import { parseArgs } from 'node:util';
import { checkSchedules } from '../consensus/round/model-check/check.ts';
import { checkRuns, runs as runSetups } from '../consensus/round/model-check/runs.ts';
import { inside } from '../consensus/round/model-check/setups.ts';

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '10000' },
    runs: { type: 'string', default: '500' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
  },
});
const schedules = Number(values.schedules);
const seed = Number(values.seed);
const started = performance.now();
let shown = started;

const { played, steps, breach } = checkSchedules(inside, seed, schedules, (count) => {
  if (performance.now() - shown > 5000) {
    shown = performance.now();
    console.error(`${count} of ${schedules} schedules`);
  }
  return true;
});
const seconds = ((performance.now() - started) / 1000).toFixed(0);
console.log(
  `${played} schedules of ${new Set(inside).size} setups, seeds ${seed} to ${seed + played - 1}`,
);
console.log(`${steps} steps in ${seconds} s`);
if (breach === undefined) {
  console.log('never two outcomes; every round ended once the network had healed');
} else {
  console.log(`${breach.setup.name}, seed ${breach.seed}: ${breach.what}`);
  process.exitCode = 1;
}

const runs = Number(values.runs);
const begun = performance.now();
const whole = checkRuns(seed, runs);
const took = ((performance.now() - begun) / 1000).toFixed(0);
console.log(
  `${runs} runs of ${runSetups.length} setups, ${whole.recovered} rounds of a worker ended in a recovery, ${whole.steps} steps in ${took} s`,
);
if (whole.breach === undefined) {
  console.log('one history each, and a replay finds it');
} else {
  console.log(
    `${JSON.stringify(whole.breach.setup)}, seed ${whole.breach.seed}: ${whole.breach.what}`,
  );
  process.exitCode = 1;
}
