/**
 * What packing payloads costs, on one core, in processor time.
 *
 *   npm run bench:codec -- [--sizes 834048,10000000] [--runs 9] [--delta FILE]   speed of every codec, and energy left
 *   npm run bench:codec -- hostile                                                time to refuse hostile payloads
 *   npm run bench:codec -- reference CHECKOUT [--sizes …] [--runs 9]              beside the Python reference
 *
 * Speed is in million values per second of encoding (select, quantize, pack) and of decoding (every check) and adding to a
 * vector. The delta is made of sums of uniform draws, or read from a file of f32. Every worker owns every chunk here, so values
 * are parameters; with owned chunks a worker encodes its share only.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Packing } from 'nostrain/network';
import { printHostile } from './codec/hostile.ts';
import { drawnForBench, measurePacking, nameOf } from './codec/measure.ts';
import { printReference } from './codec/reference.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sizes: { type: 'string', default: '834048,10000000' },
    runs: { type: 'string', default: '9' },
    delta: { type: 'string' },
    /** Above this many parameters the reference's format is left out: Python needs about 300 bytes for each. */
    'reference-up-to': { type: 'string', default: '10000000' },
  },
});
const runs = Number(flags.runs);
const sizes = flags.sizes.split(',').map(Number);

const HEADER = 'codec            size        Mvalues/s encode  decode+add  bits/value  energy left';

const deltas = (): readonly Float64Array[] =>
  flags.delta === undefined ? sizes.map(drawnForBench) : [fromFile(flags.delta)];

const [command = 'speed', checkout] = positionals;
if (command === 'hostile') printHostile(runs);
else if (command === 'reference' && checkout !== undefined)
  printReference(checkout, sizes, runs, Number(flags['reference-up-to']));
else if (command === 'speed') printSpeed();
else throw new Error(`unknown: ${positionals.join(' ')}`);

function printSpeed(): void {
  console.log(HEADER);
  for (const delta of deltas()) {
    printRow({ codec: 'int8', kept: 0 }, delta);
    for (const kept of [20, 128, 256, 1024]) printRow({ codec: 'trellis', kept }, delta);
  }
}

function printRow(packing: Packing, delta: Float64Array): void {
  const { encodeMs, decodeMs, bytes, left } = measurePacking(packing, delta, runs);
  const size = delta.length;
  console.log(
    [
      nameOf(packing).padEnd(16),
      String(size).padEnd(10),
      (size / 1000 / encodeMs).toFixed(0).padStart(17),
      (size / 1000 / decodeMs).toFixed(0).padStart(11),
      ((8 * bytes) / size).toFixed(3).padStart(11),
      left.toFixed(3).padStart(12),
    ].join(' '),
  );
}

function fromFile(file: string): Float64Array {
  const bytes = new Uint8Array(readFileSync(file));
  return Float64Array.from(new Float32Array(bytes.buffer));
}
