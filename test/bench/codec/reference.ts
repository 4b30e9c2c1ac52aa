/** The Python reference and this library on the same deltas: its own format in both, and the compact payload. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sha256Hex, utf8 } from 'nostrain/base';
import { decodeNstr, encodeNstr } from 'nostrain/python/parts';
import { addPartial, createLayout, partialOf } from 'nostrain/tensor';
import { cpuMs, drawnForBench, measurePacking, median, nameOf } from './measure.ts';

/** What the reference's recipe sends. */
const RATIO = 0.3;
const SCRIPT = fileURLToPath(new URL('./reference.py', import.meta.url));

interface Row {
  readonly encodeMs: number;
  readonly decodeMs: number;
  readonly bytes: number;
  readonly digest?: string;
}

/** Prints a table for each size; sizes above the last argument are not tried in the reference's format. */
export function printReference(
  checkout: string,
  sizes: readonly number[],
  runs: number,
  mostInReference: number,
): void {
  for (const size of sizes) {
    const delta = drawnForBench(size);
    console.log(`\n${size} parameters               encode, ms  decode, ms       bytes`);
    if (size <= mostInReference) {
      const theirs = print('reference, 30 %', inPython(checkout, delta));
      const ours = print('the same here', inNstr(delta));
      console.log(theirs.digest === ours.digest ? 'the same bytes' : 'OTHER BYTES');
    }
    for (const packing of [
      { codec: 'int8', kept: 0 },
      { codec: 'trellis', kept: 256 },
    ] as const) {
      print(nameOf(packing), measurePacking(packing, delta, runs));
    }
  }
}

function print(name: string, row: Row): Row {
  const { encodeMs, decodeMs, bytes } = row;
  const cells = [encodeMs.toFixed(1), decodeMs.toFixed(1), String(bytes)];
  console.log(name.padEnd(28), ...cells.map((cell) => cell.padStart(11)));
  return row;
}

/** The reference's own code, once, in processor time of its process; reading the delta is not counted. */
function inPython(checkout: string, delta: Float64Array): Row {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-bench-'));
  try {
    const file = join(folder, 'delta.f64');
    writeFileSync(file, new Uint8Array(delta.buffer));
    const { stdout, stderr, status } = spawnSync('python3', [SCRIPT, checkout, file, `${RATIO}`], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`the reference failed: ${stderr.slice(-2000)}`);
    return JSON.parse(stdout);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The reference's format in this library: the median of three after a small one that compiles. */
function inNstr(delta: Float64Array): Row {
  measureNstr(delta.subarray(0, 100_000));
  const rows = [0, 1, 2].map(() => measureNstr(delta));
  return {
    ...rows[0]!,
    encodeMs: median(rows.map((row) => row.encodeMs)),
    decodeMs: median(rows.map((row) => row.decodeMs)),
  };
}

function measureNstr(values: Float64Array): Row {
  const layout = createLayout([{ name: 'all', shape: [values.length] }]);
  const sum = new Float64Array(values.length);
  const started = cpuMs();
  const { payload, container } = encodeNstr({ layout, values }, { ratio: RATIO });
  const encoded = cpuMs();
  const decoded = decodeNstr(payload, { layout, maxContainerBytes: 2 ** 30 });
  if (!decoded.ok) throw new Error(decoded.issue.message);
  addPartial(sum, partialOf(decoded.value.delta), 1);
  const done = cpuMs();
  return {
    encodeMs: encoded - started,
    decodeMs: done - encoded,
    bytes: container.length,
    digest: sha256Hex(utf8(payload)),
  };
}
