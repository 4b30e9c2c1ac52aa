/** A run of finetune-rounds.ts between two rounds, on disk, so that a stopped one goes on. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Tokens } from 'nostrain/model';

export interface LocalWorker {
  readonly name: string;
  readonly shard: Tokens;
  moments: readonly Float32Array[];
  residual: Float64Array;
}

/** What a stopped run goes on with. */
export interface Progress {
  params: Float32Array;
  momentum: Float32Array;
  readonly losses: number[];
  bytes: number;
}

/** All numbers of a run as one array each, in base64. */
export function save(file: string, at: Progress, workers: readonly LocalWorker[]): void {
  const text64 = ({ buffer, byteOffset, byteLength }: Float32Array | Float64Array) =>
    Buffer.from(buffer, byteOffset, byteLength).toString('base64');
  mkdirSync(dirname(file), { recursive: true });
  const { losses, bytes } = at;
  const vectors = [at.params, at.momentum, ...workers.flatMap(({ moments }) => moments)].map(
    text64,
  );
  const residuals = workers.map(({ residual }) => text64(residual));
  writeFileSync(`${file}.part`, JSON.stringify({ losses, bytes, vectors, residuals }));
  renameSync(`${file}.part`, file);
}

export function restore(file: string, at: Progress, workers: readonly LocalWorker[]): void {
  if (!existsSync(file)) return;
  const { losses, bytes, vectors, residuals } = JSON.parse(readFileSync(file, 'utf8'));
  const buffer = (text64: string) => new Uint8Array(Buffer.from(text64, 'base64')).buffer;
  const [params, momentum, ...moments] = (vectors as string[]).map(
    (vector) => new Float32Array(buffer(vector)),
  );
  at.losses.push(...(losses as number[]));
  Object.assign(at, { params, momentum, bytes });
  workers.forEach((worker, i) => {
    worker.moments = moments.slice(2 * i, 2 * i + 2);
    worker.residual = new Float64Array(buffer(residuals[i]));
  });
}
