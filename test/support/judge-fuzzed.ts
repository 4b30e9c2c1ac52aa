/** Checks that any bytes decode to finite values or a refusal, with memory bounded by what was expected of them. */
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { countAllocations } from './allocations.ts';
import { type FuzzedPayload, fuzzedPayloads } from './payload-fuzz.ts';
import { valuesOf } from './vectors.ts';

/**
 * Returns the maximum bytes that decoding may allocate. Compact: indices, positions, the values of one chunk.
 * Reference: inflating, indices, values.
 */
const capOf = ({ size, format }: FuzzedPayload): number =>
  format === 'nspl'
    ? 2 * size + 8 * Math.ceil(size / CHUNK_LENGTH) + 8 * CHUNK_LENGTH + 64
    : 24 * size + 1024 + INFLATING;
/** Bytes for the windows and tables of two inflaters. */
const INFLATING = 90_000;

/** Decodes `count` fuzzed payloads and counts the results by kind. Throws at the first that breaks a limit. */
export function judgeFuzzed(count: number, seed: number): Map<string, number> {
  const verdicts = new Map<string, number>();
  let n = 0;
  for (const fuzzed of fuzzedPayloads(count, seed)) {
    const name = () => `payload ${n} of seed ${seed}, ${fuzzed.format}`;
    const { value: result, bytes } = countAllocations(fuzzed.decode);
    if (bytes > capOf(fuzzed)) throw new Error(`${name()}: took ${bytes} bytes`);
    if (result.ok && !valuesOf(result.value).every(Number.isFinite)) {
      throw new Error(`${name()}: values that are not finite`);
    }
    const verdict = `${fuzzed.format} ${result.ok ? 'ok' : result.issue.code}`;
    verdicts.set(verdict, 1 + (verdicts.get(verdict) ?? 0));
    n++;
  }
  return verdicts;
}
