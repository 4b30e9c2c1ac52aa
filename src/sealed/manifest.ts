/** Manifests of sealed data: which shards there are, and an envelope with the key of a shard for each recipient. */
import { fromHex, toHex, utf8 } from '../base/bytes.ts';
import { canonicalJson, jsonIn } from '../base/canonical-json.ts';
import { ok, type Result, refuse } from '../base/errors.ts';
import { sha256Hex } from '../base/hash.ts';
import {
  type Guard,
  type Guarded,
  isHash,
  isObject,
  isText,
  isWithin,
  listOf,
  shape,
} from '../base/shape.ts';
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

/** An object with these members and no others. */
function exactly<const G extends Parameters<typeof shape>[0]>(members: G) {
  const isShape = shape(members);
  return (value: unknown): value is Guarded<typeof isShape> =>
    isShape(value) && Object.keys(value as object).length === Object.keys(members).length;
}

const isShard: Guard<SealedShard> = exactly({
  shard: isWithin(0, MOST_SHARDS),
  bytes: isWithin(0, 2 ** 40),
  digest: isHash,
  chunks: isHash,
});

const isEnvelope: Guard<ShardEnvelope> = exactly({
  shard: isWithin(0, MOST_SHARDS),
  worker: isHash,
  sealKey: isHash,
  encapsulated: isHash,
  wrapped: (value): value is string =>
    isText(value) && fromHex(value)?.length === KEY_BYTES + TAG_BYTES,
});

const members = {
  id: isHash,
  form: (value: unknown): value is SealedForm => sealedForms.some((each) => each === value),
  shards: listOf(isShard, MOST_SHARDS, 1),
  envelopes: listOf(isEnvelope, MOST_ENVELOPES, 1),
};
const isManifest = shape(members);

/** Reads a manifest; refuses other shapes, absurd counts, and shards or envelopes that occur twice. */
export function readManifest(text: string): Result<SealedManifest> {
  if (text.length > MOST_MANIFEST_LETTERS) {
    return refuse('too-large', '', `a manifest has at most ${MOST_MANIFEST_LETTERS} characters`);
  }
  const json = jsonIn(text);
  if (json === undefined) return refuse('malformed', '', 'a manifest is a JSON document');
  if (!isObject(json) || json.version !== VERSION) {
    return refuse('unknown-version', 'version', `not ${VERSION}`);
  }
  if (!isManifest(json)) {
    const at = Object.entries(members).find(([name, holds]) => !holds(json[name]))?.[0] ?? '';
    return refuse('malformed', at, 'not of the form that manifests have');
  }
  const { id, form, shards, envelopes } = json;
  const numbers = new Set(shards.map(({ shard }) => shard));
  const recipients = new Set(envelopes.map(({ shard, worker }) => `${shard} ${worker}`));
  if (numbers.size < shards.length || recipients.size < envelopes.length) {
    return refuse('twice', 'envelopes', 'a shard or an envelope occurs twice');
  }
  if (envelopes.some(({ shard }) => !numbers.has(shard))) {
    return refuse('unknown-shard', 'envelopes', 'an envelope is for a shard that is not listed');
  }
  return ok({ id, form, shards, envelopes });
}

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
