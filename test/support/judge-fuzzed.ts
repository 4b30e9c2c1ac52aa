/** Any bytes decode to finite values or to a refusal, and memory is taken for what was expected, not for what they claim. */
import { CHUNK_LENGTH } from 'nostrain/tensor';
import { countAllocations } from './allocations.ts';
import { type FuzzedPayload, fuzzedPayloads } from './payload-fuzz.ts';
import { valuesOf } from './vectors.ts';

/** What decoding may take. Compact: indices, places, the kept values of one chunk. Reference's: inflating, indices, values. */
const capOf = ({ size, format }: FuzzedPayload): number =>
  format === 'nspl'
    ? 2 * size + 8 * Math.ceil(size / CHUNK_LENGTH) + 8 * CHUNK_LENGTH + 64
    : 24 * size + 1024 + INFLATING;
/** Windows and tables of two inflaters. */
const INFLATING = 90_000;

/** Decodes this many fuzzed payloads and counts the verdicts; throws at the first that is judged wrongly. */
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
