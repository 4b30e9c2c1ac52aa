/** Sealed training data: seals files into a folder of chunks, and opens a worker's shards in memory. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { concatBytes, toHex } from '../../base/bytes.ts';
import { ConfigError, type Result } from '../../base/errors.ts';
import { manifestDigest } from '../../network/chunks/manifest.ts';
import { SEALED_FILE } from '../../run/chunked-files.ts';
import type { Digest, WorkerId } from '../../run/ids.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import {
  canonicalManifest,
  manifestHash,
  readManifest,
  type SealedForm,
  type SealedManifest,
  type SealedShard,
  unwrapKey,
  wrapKey,
} from '../../sealed/manifest.ts';
import { decryptShard, encryptShard, KEY_BYTES } from '../../sealed/shard.ts';
import type { FileRequest } from '../checkpoint/bring-file.ts';
import { findPacked, readBytes, readManifest as readPacked } from '../checkpoint/folder.ts';
import { packFile } from '../checkpoint/pack.ts';
import { loadSealKeys, toNpub } from '../files/keys.ts';
import { nativeSha256 } from '../native/sha256.ts';
import type { Connection } from '../net/relays.ts';
import type { MemoryData } from './corpus.ts';

/** A worker and its X25519 key, hex. */
export interface Recipient {
  readonly worker: WorkerId;
  readonly sealKey: string;
}

/** Bytes of a chunk of an encrypted file. */
const CHUNK_BYTES = 2 ** 22;

/** Ends of file names by form, from which trainers know the format. */
const ENDS: Readonly<Record<SealedForm, string>> = {
  text: '.txt',
  csv: '.csv',
  jsonl: '.jsonl',
  images: '.images',
};

/** Folder with the chunks of the manifest, inside of a folder of sealed data. */
export const packedIn = (folder: string): string => join(folder, 'manifest');

/** Encrypts each part with a key of its own for the recipient whose turn it is, and packs parts and manifest. */
export async function sealParts(
  parts: readonly Uint8Array[],
  { form, recipients, out }: { form: SealedForm; recipients: readonly Recipient[]; out: string },
): Promise<SealedManifest> {
  const random = (bytes: number) => globalThis.crypto.getRandomValues(new Uint8Array(bytes));
  const id = toHex(random(KEY_BYTES));
  const shards: SealedShard[] = [];
  const envelopes: SealedManifest['envelopes'][number][] = [];
  await mkdir(out, { recursive: true });
  for (const [index, part] of parts.entries()) {
    const key = random(KEY_BYTES);
    const sealed = await encryptShard(part, key, { id, shard: index });
    const file = join(out, `shard-${index}.sealed`);
    await writeFile(file, sealed);
    const packed = await packFile(file, join(out, `shard-${index}`), packing);
    await rm(file);
    const chunks = manifestDigest(packed, nativeSha256);
    const shard = { shard: index, bytes: part.length, digest: packed.sha256, chunks };
    shards.push(shard);
    // with fewer shards than recipients, several have the same one
    const owners = recipients.filter((_, i) =>
      parts.length < recipients.length
        ? i % parts.length === index
        : i === index % recipients.length,
    );
    for (const owner of owners) envelopes.push(await wrapKey(id, shard, { ...owner, key }));
  }
  const manifest = { id, form, shards, envelopes };
  const file = join(out, SEALED_FILE);
  await writeFile(file, canonicalManifest(manifest));
  await packFile(file, packedIn(out), packing);
  return manifest;
}

const packing = { chunkBytes: CHUNK_BYTES, erasure: null };

/** What a spec says about sealed data. */
export const sealedInSpec = (manifest: SealedManifest): RunSpec['sealed'] => ({
  manifest: `tee://${manifestHash(manifest)}`,
  id: manifest.id,
  recipients: [...new Set(manifest.envelopes.map((each) => `${each.worker}:${each.sealKey}`))],
});

/** Returns a function that reads the encrypted files in a folder of sealed data by the digests of their manifests. */
export async function sealedFilesIn(folder: string): Promise<ReadSealed> {
  const packed = new Map<Digest, string>();
  for (const each of await findPacked(folder)) {
    packed.set(manifestDigest(await readPacked(each), nativeSha256), each);
  }
  return async ({ manifest, name = 'a file' }) => {
    const from = packed.get(manifest);
    if (from === undefined) throw notOfOwner('missing', `${name} is not in ${folder}`);
    const chunks = await readPacked(from);
    return readBytes(from, chunks, 0, chunks.bytes);
  };
}

/** Reads an encrypted file. */
export type ReadSealed = (file: FileRequest) => Promise<Uint8Array>;

/** Returns the request for the encrypted file of a shard. */
export const fileOfShard = ({ shard, digest, chunks }: SealedShard): FileRequest => ({
  manifest: chunks,
  name: `shard-${shard}.sealed`,
  sha256: digest,
});

/** Relays that have files of a run, and whether a stranger named them. */
export type FileReach = Pick<Connection, 'publicOnly'> & {
  readonly relays: readonly string[];
  readonly signal: AbortSignal;
};

interface Joiner {
  readonly me: WorkerId;
  readonly corpus: string | undefined;
  /** Fetches an encrypted file and returns its path. */
  sealedFile(file: FileRequest): Promise<string> | undefined;
  onNotice(message: string): void;
}

/**
 * Returns this worker's part of the sealed data of a run, in memory only, and keeps it out of core dumps. Throws a
 * ConfigError (`shard/…`) if the manifest is not the one in the spec, no shard is for this worker, or one is damaged.
 */
export async function openSealedData(
  { sealed, files }: Pick<RunSpec, 'sealed' | 'files'>,
  { me, corpus, sealedFile, onNotice }: Joiner,
): Promise<MemoryData> {
  const file = files?.each.find(({ name }) => name === SEALED_FILE);
  if (corpus !== undefined || file === undefined) {
    throw new ConfigError('shard/only', 'the workers of this run train on its sealed data only', {
      hint: 'leave --corpus out; the spec must come from `nostrain run create --sealed FOLDER`',
    });
  }
  if (!(await leaveOutOfCoreDumps())) onNotice('a crash may write training data to a core dump');
  const read: ReadSealed = async (wanted) => {
    const path = await sealedFile(wanted);
    if (path === undefined) throw notOfOwner('port', 'this program fetches no sealed files');
    return readFile(path);
  };
  return openShards(sealedManifest(await read(file), sealed.manifest), me, read);
}

/** Decrypts the shards of a worker and joins them. Throws a ConfigError (`shard/…`). */
export async function openShards(
  manifest: SealedManifest,
  worker: WorkerId,
  read: ReadSealed,
): Promise<MemoryData> {
  const { id, form } = manifest;
  const mine = manifest.shards.filter(({ shard }) =>
    manifest.envelopes.some((each) => each.shard === shard && each.worker === worker),
  );
  if (mine.length === 0) {
    throw new ConfigError('shard/not-yours', `no shard is for ${toNpub(worker)}`, {
      hint: '`nostrain shard list` shows for whom the shards are',
    });
  }
  const { secretKey } = await loadSealKeys(worker);
  const parts: Uint8Array[] = [];
  for (const each of mine) {
    const key = accepted(await unwrapKey(manifest, each, { worker, secretKey }));
    const encrypted = await read(fileOfShard(each));
    const place = { id, shard: each.shard, bytes: each.bytes };
    const part = accepted(await decryptShard(encrypted, key, place));
    // every part of a table repeats its header
    parts.push(form === 'csv' && parts.length > 0 ? part.subarray(part.indexOf(10) + 1) : part);
  }
  return { name: `sealed data${ENDS[form]}`, bytes: concatBytes(...parts) };
}

/** Reads a manifest. Throws `shard/hash` if a hash is given and differs. */
export function sealedManifest(bytes: Uint8Array, hash?: string): SealedManifest {
  const manifest = accepted(readManifest(new TextDecoder().decode(bytes)));
  const actual = `tee://${manifestHash(manifest)}`;
  if (hash === undefined || hash === actual) return manifest;
  throw notOfOwner('hash', `SealedManifestHashMismatch: it is ${actual}`);
}

/** Returns the value, or throws a ConfigError with the reason of the refusal. */
function accepted<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  const { code, at, message } = result.issue;
  throw notOfOwner(code, `${at} ${message}`.trim());
}

const notOfOwner = (code: string, message: string): ConfigError =>
  new ConfigError(`shard/${code}`, message, {
    hint: 'get the manifest and the shards from the owner of the data again',
  });

/** Leaves all memory out of core dumps of this process and its children; returns false if the system refuses. */
const leaveOutOfCoreDumps = (): Promise<boolean> =>
  writeFile('/proc/self/coredump_filter', '0').then(
    () => true,
    () => false,
  );
