/** Payloads of docs/payload.md for tests that sign manifests by hand: every parameter. */
import { fromHex, sha256, utf8 } from 'nostrain/base';
import { encodePayload, type Packing } from 'nostrain/network';
import { CHUNK_LENGTH } from 'nostrain/tensor';

interface PackedFor {
  readonly run: string;
  readonly round: number;
  /** Digest of the roster that owns chunks; by default nobody owns any. */
  readonly roster?: string | undefined;
  /** Default: int8. */
  readonly packing?: Packing;
}

export function packWhole(
  values: Float64Array,
  { run, round, roster, packing = { codec: 'int8', kept: 0 } }: PackedFor,
): Uint8Array {
  const chunks = Uint32Array.from({ length: Math.ceil(values.length / CHUNK_LENGTH) }, (_, i) => i);
  const owners = fromHex(roster ?? '0'.repeat(64))!;
  const place = { run: sha256(utf8(run)), round, sender: new Uint8Array(32) };
  const scope = { ...place, size: values.length, roster: owners, chunks };
  return encodePayload(values, packing, scope).payload;
}
