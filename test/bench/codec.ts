/**
 * What packing payloads costs, on one core, in processor time.
 *
 *   npm run bench:codec -- [--sizes 834048,10000000] [--runs 9] [--delta FILE]   speed of every codec, and energy left
 *   npm run bench:codec -- sizes                                                  bytes per worker, by encoding
 *   npm run bench:codec -- budget [--sizes …] [--bits 0.1,0.8] [--delta FILE]     what fills a budget beside what `auto` takes, at equal bytes
 *   npm run bench:codec -- hostile                                                time to refuse hostile payloads
 *   npm run bench:codec -- reference CHECKOUT [--sizes …] [--runs 9]              beside the Python reference
 *
 * Speed is in million values per second of encoding (select, quantize, pack) and of decoding (every check) and adding to a
 * vector. The delta is made of sums of uniform draws, or read from a file of f32. Every worker owns every chunk here, so values
 * are parameters; with owned chunks a worker encodes its share only.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import {
  type CodecName,
  choosePacking,
  codecs,
  PAYLOAD_HEADER_BYTES,
  type Packing,
} from 'nostrain/network';
import { chunkCount } from 'nostrain/tensor';
import { printHostile } from './codec/hostile.ts';
import { drawnForBench, measurePacking, nameOf } from './codec/measure.ts';
import { printReference } from './codec/reference.ts';
import { printSizes } from './codec/sizes.ts';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sizes: { type: 'string', default: '834048,10000000' },
    runs: { type: 'string', default: '9' },
    delta: { type: 'string' },
    /** Bits per value of the budgets that are filled. */
    bits: { type: 'string', default: '0.1,0.2,0.4,0.8,1.62,2.02,4.02' },
    /** Above this many parameters the reference's format is left out: Python needs about 300 bytes for each. */
    'reference-up-to': { type: 'string', default: '10000000' },
  },
});
const runs = Number(flags.runs);
const sizes = flags.sizes.split(',').map(Number);
const densities = [64, 256, 512];

const HEADER = 'codec            size        Mvalues/s encode  decode+add  bits/value  energy left';
const filled = flags.bits.split(',').map(Number);

const deltas = (): readonly Float64Array[] =>
  flags.delta === undefined ? sizes.map(drawnForBench) : [fromFile(flags.delta)];

const [command = 'speed', checkout] = positionals;
if (command === 'sizes') printSizes();
else if (command === 'hostile') printHostile(runs);
else if (command === 'reference' && checkout !== undefined)
  printReference(checkout, sizes, runs, Number(flags['reference-up-to']));
else if (command === 'budget') printBudgets();
else if (command === 'speed') printSpeed();
else throw new Error(`unknown: ${positionals.join(' ')}`);

function printSpeed(): void {
  console.log(HEADER);
  for (const delta of deltas()) {
    for (const codec of Object.keys(codecs) as CodecName[]) {
      const kept = { all: [0], largest: densities, bits: [128, 256, 1024] }[codecs[codec].sends];
      for (const k of kept) printRow({ codec, kept: k }, delta);
    }
  }
}

function printBudgets(): void {
  console.log(HEADER);
  for (const delta of deltas()) {
    const chunks = chunkCount(delta.length);
    for (const bits of filled) {
      const maxBytes = Math.floor((bits * delta.length) / 8);
      printRow(choosePacking(maxBytes, chunks), delta);
      const kept = Math.floor((maxBytes - PAYLOAD_HEADER_BYTES) / chunks) - 2;
      printRow({ codec: 'trellis', kept: Math.max(1, Math.min(1024, kept)) }, delta);
    }
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
