/** How many bytes a worker sends, by encoding: at the density of others, and as more workers join. */
import { sha256, toHex } from 'nostrain/base';
import { ownedChunks, seatsAtMost } from 'nostrain/consensus';
import { choosePacking, encodePayload, type Packing } from 'nostrain/network';
import { chunkCount } from 'nostrain/tensor';
import { scopeOf } from '../../support/drawn-delta.ts';
import { drawnForBench, nameOf } from './measure.ts';

const PARAMETERS = 834_048;
/** What a manifest carries inside itself. */
const ONE_EVENT = 45_056;

/** Prints both tables. */
export function printSizes(): void {
  const delta = drawnForBench(PARAMETERS);
  const bytesOf = (packing: Packing, chunks?: Uint32Array) => {
    const scope = scopeOf(PARAMETERS);
    return encodePayload(delta, packing, { ...scope, chunks: chunks ?? scope.chunks }).payload
      .length;
  };
  console.log(`64 of each chunk of 4096 values (1.5625 %), ${PARAMETERS} parameters`);
  console.log('codec            bytes   bits/parameter  f32 / payload');
  const bytes = bytesOf({ codec: 'topk-sign', kept: 64 });
  const [bits, ratio] = [(8 * bytes) / PARAMETERS, (4 * PARAMETERS) / bytes];
  console.log(`topk-sign      ${bytes}  ${bits.toFixed(4)}  ${ratio.toFixed(1)}`);
  console.log(
    '\nworkers  owners  chunks each  bytes each, ternary  richest code that fits one event',
  );
  for (const owners of [1, 3]) {
    for (const workers of [4, 16, 64, 256]) console.log(scalingRow(workers, owners, bytesOf));
  }
}

/** Every worker's payload of one round, encoded. */
function scalingRow(
  workers: number,
  owners: number,
  bytesOf: (packing: Packing, chunks: Uint32Array) => number,
): string {
  const digest = new Uint8Array(32);
  const keys = Array.from({ length: workers }, (_, i) => toHex(sha256(Uint8Array.of(i))));
  const rule = { run: digest, round: 0, entropy: digest, workers: keys, owners } as const;
  const all = chunkCount(PARAMETERS);
  const shares = [...ownedChunks({ ...rule, seats: 'even' }, all).values()];
  const richest = choosePacking(ONE_EVENT, seatsAtMost(all, workers, owners));
  const bytes = shares.map((share) => bytesOf({ codec: 'ternary', kept: 0 }, share));
  const richer = shares.map((share) => bytesOf(richest, share));
  return [
    String(workers).padStart(7),
    String(owners).padStart(6),
    range(shares.map((share) => share.length)).padStart(12),
    range(bytes).padStart(20),
    `  ${nameOf(richest)}, ${range(richer)} bytes`,
  ].join(' ');
}

function range(values: readonly number[]): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? `${least}` : `${least} to ${most}`;
}
