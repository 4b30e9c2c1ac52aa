/** Reads and writes simulated runs, one line of JSON each, for the curves of docs/results/many-workers.md. */
import { readFileSync } from 'node:fs';

const SCALE = 'docs/assets/scale.ndjson';

export interface ScaleRow {
  readonly workers: number;
  readonly relays: number;
  /** Relays that each worker reads; 0: all. */
  readonly copies: number;
  /** Absent in rows of before, when they were those that each event was sent to. */
  readonly reads?: true;
  /** Workers drawn for a round; 0: all contribute. */
  readonly contributors: number;
  readonly seed: number;
  readonly roots: number;
  readonly churn: number;
  /** Bytes that a worker sent in a round, each event once. */
  readonly ownBytes: number;
  readonly rounds: readonly {
    readonly accepted: number;
    /** Bytes that came to a worker. */
    readonly bytesDown: number;
    /** Seconds from the last contribution to the certificate, at the median worker and the last. */
    readonly toCertificate: readonly [number, number];
    /** Of the whole process. */
    readonly cpuSeconds: number;
    readonly heapBytes: number;
  }[];
}

export const readScale = (): readonly ScaleRow[] =>
  readFileSync(SCALE, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ScaleRow);
