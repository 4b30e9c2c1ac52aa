/** Manifests of sealed data: which shards there are, and an envelope with the key of a shard for each recipient. */
import { fromHex, isHex32, toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import { type Bound, openFor, sealTo, TAG_BYTES } from './hpke.ts';
import { KEY_BYTES } from './shard.ts';

export const sealedForms = ['text', 'csv', 'jsonl', 'images'] as const;
export type SealedForm = (typeof sealedForms)[number];

/** A part of the data, encrypted with a key of its own. */
export interface SealedShard {
  readonly shard: number;
  /** Bytes before encryption. */
  readonly bytes: number;
  /** SHA-256 of the encrypted file, hex. */
  readonly digest: string;
  /** SHA-256 of the manifest of its chunks, by which the encrypted file is fetched; hex. */
  readonly chunks: string;
}

/** The key of a shard, encrypted to a recipient. */
export interface ShardEnvelope {
  readonly shard: number;
  /** Nostr key of the recipient, hex. */
  readonly worker: string;
  /** Its X25519 key, hex. */
  readonly sealKey: string;
  readonly encapsulated: string;
  readonly wrapped: string;
}

export interface SealedManifest {
  /** Random, chosen when the data is sealed; hex, 32 bytes. */
  readonly id: string;
  readonly form: SealedForm;
  readonly shards: readonly SealedShard[];
  readonly envelopes: readonly ShardEnvelope[];
}

const VERSION = 1;
const MOST_SHARDS = 4096;
const MOST_ENVELOPES = 65_536;
/** Largest manifest, in characters: one of a thousand recipients has 400,000. */
const MOST_MANIFEST_LETTERS = 2 ** 24;
const INFO = 'nostrain/sealed-shard/1';

/** Returns the canonical text: the same for every order of shards and envelopes. */
export function canonicalManifest({ id, form, shards, envelopes }: SealedManifest): string {
  const rank = ({ shard, worker }: ShardEnvelope) => `${`${shard}`.padStart(8, '0')} ${worker}`;
  return canonicalJson({
    version: VERSION,
    id,
    form,
    shards: shards.toSorted((a, b) => a.shard - b.shard).map((shard) => ({ ...shard })),
    envelopes: envelopes
      .toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))
      .map((envelope) => ({ ...envelope })),
  });
}

/** Returns the hash that names the sealed data: SHA-256 of the canonical text, hex. Specs write `tee://<hash>`. */
export const manifestHash = (manifest: SealedManifest): string =>
  sha256Hex(utf8(canonicalManifest(manifest)));

/** Reads a manifest; refuses other shapes, absurd counts, and shards or envelopes that occur twice. */
export function readManifest(text: string): Result<SealedManifest> {
  if (text.length > MOST_MANIFEST_LETTERS) {
    return refuse('too-large', '', `a manifest has at most ${MOST_MANIFEST_LETTERS} characters`);
  }
  let json: Record<string, unknown>;
  try {
    json = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return refuse('malformed', '', 'a manifest is a JSON document');
  }
  const { version, id, form, shards, envelopes } = json ?? {};
  if (version !== VERSION) return refuse('unknown-version', 'version', `not ${VERSION}`);
  if (!isHash(id)) return refuse('malformed', 'id', 'not 32-byte hex');
  const known = sealedForms.find((each) => each === form);
  if (known === undefined) return refuse('malformed', 'form', `not ${sealedForms.join(', ')}`);
  const parts = listOf(shards, MOST_SHARDS, isShard);
  if (!parts) return refuse('malformed', 'shards', `not 1 to ${MOST_SHARDS} shards`);
  const keys = listOf(envelopes, MOST_ENVELOPES, isEnvelope);
  if (!keys) return refuse('malformed', 'envelopes', `not 1 to ${MOST_ENVELOPES} envelopes`);
  const numbers = new Set(parts.map(({ shard }) => shard));
  const recipients = new Set(keys.map(({ shard, worker }) => `${shard} ${worker}`));
  if (numbers.size < parts.length || recipients.size < keys.length) {
    return refuse('twice', 'envelopes', 'a shard or an envelope occurs twice');
  }
  if (keys.some(({ shard }) => !numbers.has(shard))) {
    return refuse('unknown-shard', 'envelopes', 'an envelope is for a shard that is not listed');
  }
  return ok({ id, form: known, shards: parts, envelopes: keys });
}

function listOf<T>(value: unknown, most: number, holds: (one: unknown) => one is T) {
  if (!Array.isArray(value) || value.length === 0 || value.length > most) return undefined;
  return value.every(holds) ? (value as readonly T[]) : undefined;
}

const isHash = (value: unknown): value is string => typeof value === 'string' && isHex32(value);

const isNumber = (value: unknown, most: number): boolean =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most;

/** Reports whether an object has these members and no others. */
function hasMembers(value: unknown, names: readonly string[]): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return Object.keys(value).toSorted().join() === names.toSorted().join();
}

const isShard = (value: unknown): value is SealedShard =>
  hasMembers(value, ['shard', 'bytes', 'digest', 'chunks']) &&
  isNumber(value.shard, MOST_SHARDS) &&
  isNumber(value.bytes, 2 ** 40) &&
  [value.digest, value.chunks].every(isHash);

const isEnvelope = (value: unknown): value is ShardEnvelope =>
  hasMembers(value, ['shard', 'worker', 'sealKey', 'encapsulated', 'wrapped']) &&
  isNumber(value.shard, MOST_SHARDS) &&
  [value.worker, value.sealKey, value.encapsulated].every(isHash) &&
  typeof value.wrapped === 'string' &&
  fromHex(value.wrapped)?.length === KEY_BYTES + TAG_BYTES;

/** What an envelope is bound to: the sealed data, the shard and its recipient, and the encrypted file. */
function boundOf(id: string, { shard, digest }: SealedShard, sealKey: string): Bound {
  const info = [INFO, id, `${shard}`, sealKey].join(' ');
  return { info: utf8(info), aad: fromHex(digest)! };
}

/** Wraps the key of a shard for a recipient. */
export async function wrapKey(
  id: string,
  shard: SealedShard,
  { worker, sealKey, key }: { worker: string; sealKey: string; key: Uint8Array },
): Promise<ShardEnvelope> {
  const { encapsulated, ciphertext } = await sealTo(sealKey, key, boundOf(id, shard, sealKey));
  const hex = { encapsulated: toHex(encapsulated), wrapped: toHex(ciphertext) };
  return { shard: shard.shard, worker, sealKey, ...hex };
}

/** Returns the key of a shard for a worker; refuses if no envelope is for it, or if its X25519 key does not open it. */
export async function unwrapKey(
  manifest: SealedManifest,
  shard: SealedShard,
  { worker, secretKey }: { worker: string; secretKey: string },
): Promise<Result<Uint8Array>> {
  const envelope = manifest.envelopes.find(
    (each) => each.shard === shard.shard && each.worker === worker,
  );
  if (envelope === undefined) {
    return refuse('no-envelope', 'envelopes', `shard ${shard.shard} has no envelope for this key`);
  }
  const { encapsulated, wrapped, sealKey } = envelope;
  const bytes = { encapsulated: fromHex(encapsulated)!, ciphertext: fromHex(wrapped)! };
  const key = await openFor({ secretKey }, bytes, boundOf(manifest.id, shard, sealKey));
  return key?.length === KEY_BYTES
    ? ok(key)
    : refuse('wrong-key', 'envelopes', 'the envelope was sealed to another X25519 key');
}
