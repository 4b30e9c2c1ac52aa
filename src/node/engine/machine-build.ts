/**
 * What the bits of inner steps depend on, as a worker says it to others: engine and its version, kind of machine, threads. Two machines that say the
 * same compute the same bits; a processor is told by its vector instructions, by which the engine chooses how it multiplies.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Arithmetic } from '../../run/spec/model-spec.ts';
import { requireEngine } from './training-engine.ts';

/** Vector instructions that kernels are chosen by, the widest first. */
const VECTORS = ['avx512f', 'avx2', 'avx', 'sse4_2'];

/** Settings of a worker that change the order in which its numbers are added. */
export interface Computing {
  readonly device: string;
  readonly threads: number;
  readonly accumulate: number;
  readonly recompute: boolean;
  readonly precision: Arithmetic;
}

/** In ASCII, at most 128 characters. */
export function machineBuild({
  device,
  threads,
  accumulate,
  recompute,
  precision,
}: Computing): string {
  const machine = `${process.platform}-${process.arch}-${vectorsOf(cpuFlags())}`;
  const half = precision === 'f32' ? '' : ` ${precision}`;
  const more = `${half}${accumulate > 1 ? ` accumulate-${accumulate}` : ''}${recompute ? ' recompute' : ''}`;
  return `onnxruntime-node-${engineVersion()} ${machine} ${device} threads-${threads}${more}`;
}

/** What such a text says of the settings; the usual ones where it says nothing. */
export function computingOf(build: string): Omit<Computing, 'device' | 'precision'> {
  const number = (name: string) =>
    Number(new RegExp(` ${name}-([1-9][0-9]{0,3})(?: |$)`).exec(build)?.[1] ?? 1);
  return {
    threads: number('threads'),
    accumulate: number('accumulate'),
    recompute: build.endsWith(' recompute'),
  };
}

function engineVersion(): string {
  const require = createRequire(import.meta.url);
  for (
    let folder = dirname(requireEngine());
    folder !== dirname(folder);
    folder = dirname(folder)
  ) {
    try {
      const { name, version } = require(join(folder, 'package.json')) as {
        readonly name?: string;
        readonly version?: string;
      };
      if (name === 'onnxruntime-node' && version) return version;
    } catch {
      // none here: further up
    }
  }
  return 'unknown';
}

/** The widest of those that kernels are chosen by; `base` where the system does not say. */
const vectorsOf = (flags: readonly string[]): string =>
  VECTORS.find((name) => flags.includes(name)) ?? 'base';

function cpuFlags(): readonly string[] {
  try {
    const text = readFileSync('/proc/cpuinfo', 'utf8');
    return (/^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1] ?? '').split(' ');
  } catch {
    return []; // not Linux
  }
}
