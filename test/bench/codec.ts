/**
 * How fast payloads are packed and read, on one core: million values per second of encoding (select, quantize, pack) and of
 * decoding (every check) and adding to a vector; and how much of a delta's energy each codec leaves, per byte.
 *
 *   npm run bench:codec -- [--sizes 834048,10000000] [--runs 9] [--delta FILE]
 *
 * The delta is made of sums of uniform draws, or read from a file of f32. Every worker owns every chunk here, so values are
 * parameters; with owned chunks a worker encodes its share only.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deriveKey, philox } from '../../src/base/rng.ts';
import { type CodecName, codecs, type Packing } from '../../src/network/codec/codecs.ts';
import { decodePayload, encodePayload } from '../../src/network/codec/payload.ts';
import { addPartial, chunkCount } from '../../src/tensor/partial-vector.ts';

const { values: flags } = parseArgs({
  options: {
    sizes: { type: 'string', default: '834048,10000000' },
    runs: { type: 'string', default: '9' },
    delta: { type: 'string' },
  },
});
const runs = Number(flags.runs);
const densities = [64, 256, 512];

console.log('codec            size        Mvalues/s encode  decode+add  bits/value  energy left');
const sizes = flags.delta === undefined ? flags.sizes.split(',').map(Number) : [0];
for (const size of sizes) {
  const delta = flags.delta === undefined ? drawn(size) : fromFile(flags.delta);
  for (const codec of Object.keys(codecs) as CodecName[]) {
    const kept = codecs[codec].sends === 'all' ? [0] : densities;
    for (const k of kept) report({ codec, kept: k }, delta);
  }
}

function report(packing: Packing, delta: Float64Array): void {
  const size = delta.length;
  const digest = new Uint8Array(32);
  const chunks = Uint32Array.from({ length: chunkCount(size) }, (_, i) => i);
  const scope = { run: digest, round: 0, size, roster: digest, chunks };
  const sum = new Float64Array(size);
  const encoding: number[] = [];
  const decoding: number[] = [];
  let bytes = 0;
  for (let i = 0; i <= runs; i++) {
    const started = cpuMs();
    const { payload } = encodePayload(delta, packing, scope);
    const encoded = cpuMs();
    const decoded = decodePayload(payload, scope);
    if (!decoded.ok) throw new Error(decoded.issue.message);
    addPartial(sum, decoded.value.delta, 1 / (runs + 1));
    const done = cpuMs();
    bytes = payload.length;
    // the first run compiles
    if (i > 0) {
      encoding.push(encoded - started);
      decoding.push(done - encoded);
    }
  }
  let left = 0;
  let all = 0;
  for (let i = 0; i < size; i++) {
    left += (delta[i]! - sum[i]!) ** 2;
    all += delta[i]! ** 2;
  }
  const name = packing.kept === 0 ? packing.codec : `${packing.codec} ${packing.kept}`;
  const rate = (times: number[]) => (size / 1000 / median(times)).toFixed(0);
  console.log(
    [
      name.padEnd(16),
      String(size).padEnd(10),
      rate(encoding).padStart(17),
      rate(decoding).padStart(11),
      ((8 * bytes) / size).toFixed(3).padStart(11),
      (left / all).toFixed(3).padStart(12),
    ].join(' '),
  );
}

/** Processor time of this process: on a shared machine the clock on the wall measures the neighbours. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function median(times: number[]): number {
  return times.sort((a, b) => a - b)[times.length >> 1]!;
}

function drawn(size: number): Float64Array {
  const key = deriveKey('nostrain/bench-codec');
  const out = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    const [a, b, c, d] = philox(key, i, 0, 0, 0);
    out[i] = (a + b - c - d) / 2 ** 40;
  }
  return out;
}

function fromFile(file: string): Float64Array {
  const bytes = new Uint8Array(readFileSync(file));
  return Float64Array.from(new Float32Array(bytes.buffer));
}
