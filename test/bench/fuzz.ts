/**
 * Time and memory of hostile input: the slowest of many changed inputs over every parser of the wire and of the relay, and how much
 * memory is kept after all of them. Fails over 2 s for one input or 48 MB in all. `npm run bench:fuzz -- [inputs] [seed]`.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { fuzzAll } from '../support/fuzz-all.ts';

const [inputs = '100000', seed = '20261122'] = process.argv.slice(2);
const MOST_MS = 2000;
/** Code that is compiled meanwhile counts too. */
const MOST_MEGABYTES = 48;

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
const keptMegabytes = () => {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / 1e6;
};

let slowest = { name: '', ms: 0 };
let before = 0;
const targets = fuzzAll(Number(inputs), Number(seed), (name, run, index) => {
  const startedMs = performance.now();
  run();
  const ms = performance.now() - startedMs;
  if (ms > slowest.ms) slowest = { name, ms };
  if (index === Math.floor(Number(inputs) / 10)) before = keptMegabytes();
});
const grownMegabytes = keptMegabytes() - before;
console.log({ inputs, seed, targets, slowest, grownMegabytes });
if (slowest.ms > MOST_MS || grownMegabytes > MOST_MEGABYTES) process.exitCode = 1;
