/** Encrypted shards: AES-256-GCM (NIST SP 800-38D) in chunks, so that any chunk is checked before it is used. */
import { concatBytes, utf8 } from '../base/bytes.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { TAG_BYTES } from './hpke.ts';

export const KEY_BYTES = 32;
/** Bytes of data in a chunk; the last one may have fewer. */
const CHUNK_BYTES = 2 ** 20;
const NONCE_BYTES = 12;
const TEXT = 'nostrain/sealed-chunk/1';

/** Where a shard is: chunks moved to another shard, place or data set do not decrypt. */
export interface ShardPlace {
  /** Id of the sealed data, hex. */
  readonly id: string;
  readonly shard: number;
  /** Bytes of the whole shard. */
  readonly bytes: number;
}

const importKey = (key: Uint8Array) =>
  globalThis.crypto.subtle.importKey('raw', Uint8Array.from(key), 'AES-GCM', false, [
    'encrypt',
    'decrypt',
  ]);

/** Returns the parameters of a chunk: its number is the nonce, since each shard has a key of its own. */
function chunkParameters({ id, shard, bytes }: ShardPlace, chunk: number): AesGcmParams {
  const iv = new Uint8Array(NONCE_BYTES);
  new DataView(iv.buffer).setUint32(NONCE_BYTES - 4, chunk);
  const additionalData = Uint8Array.from(utf8([TEXT, id, shard, bytes, chunk].join(' ')));
  return { name: 'AES-GCM', iv, additionalData };
}

/** Encrypts a shard with a key of 32 bytes that is used for nothing else. */
export async function encryptShard(
  data: Uint8Array,
  key: Uint8Array,
  place: Omit<ShardPlace, 'bytes'>,
): Promise<Uint8Array> {
  const where = { ...place, bytes: data.length };
  return eachChunk(data, CHUNK_BYTES, await importKey(key), (imported, part, chunk) =>
    globalThis.crypto.subtle.encrypt(chunkParameters(where, chunk), imported, part),
  );
}

/** Decrypts a shard; refuses other lengths and chunks that do not verify. */
export async function decryptShard(
  sealed: Uint8Array,
  key: Uint8Array,
  place: ShardPlace,
): Promise<Result<Uint8Array>> {
  const chunks = Math.max(1, Math.ceil(place.bytes / CHUNK_BYTES));
  if (sealed.length !== place.bytes + chunks * TAG_BYTES) {
    return refuse('bad-length', 'shard', `${sealed.length} bytes encrypt another length`);
  }
  try {
    const data = await eachChunk(
      sealed,
      CHUNK_BYTES + TAG_BYTES,
      await importKey(key),
      (imported, part, chunk) =>
        globalThis.crypto.subtle.decrypt(chunkParameters(place, chunk), imported, part),
    );
    return ok(data);
  } catch {
    return refuse('bad-chunk', 'shard', 'the shard is damaged, or encrypted with another key');
  }
}

async function eachChunk(
  bytes: Uint8Array,
  size: number,
  key: CryptoKey,
  apply: (key: CryptoKey, part: Uint8Array<ArrayBuffer>, chunk: number) => Promise<ArrayBuffer>,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += size) {
    const part = Uint8Array.from(bytes.subarray(at, at + size));
    parts.push(new Uint8Array(await apply(key, part, at / size)));
  }
  return concatBytes(...parts);
}

/** Splits data between lines into `parts` parts of nearly equal size; each part repeats the header of the data. */
export function splitLines(
  data: Uint8Array,
  parts: number,
  hasHeader: boolean,
): readonly Uint8Array[] {
  const newline = 10;
  const headerEnd = hasHeader ? data.indexOf(newline) + 1 : 0;
  const [header, rows] = [data.subarray(0, headerEnd), data.subarray(headerEnd)];
  const cuts = [0];
  for (let part = 1; part < parts; part++) {
    const wanted = Math.floor((rows.length * part) / parts);
    const end = rows.indexOf(newline, Math.max(wanted, cuts.at(-1)!));
    cuts.push(end === -1 ? rows.length : end + 1);
  }
  cuts.push(rows.length);
  return cuts.slice(1).map((end, i) => concatBytes(header, rows.subarray(cuts[i]!, end)));
}
