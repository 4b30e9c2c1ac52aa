/** `nostrain shard`: encrypts training data for chosen workers, and opens it again. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Argument, Command } from 'commander';
import { sealKey } from '../../../kinds/seal-key.ts';
import { toHex } from '../../base/bytes.ts';
import { ConfigError, type Result } from '../../base/errors.ts';
import { formatBytes } from '../../base/numbers.ts';
import { parseEvent, verifyEvent } from '../../network/event.ts';
import { unixSeconds } from '../../node/checkpoint/directory.ts';
import { homeSigner, loadSealKeys, toNpub } from '../../node/files/keys.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
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
import { decryptShard, encryptShard, KEY_BYTES, splitLines } from '../../sealed/shard.ts';
import {
  choice,
  commandWith,
  type FlagValues,
  required,
  several,
  text,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import { readBytes } from '../shared/files.ts';

export const shard = (): Command =>
  new Command('shard')
    .description('encrypt training data for chosen workers; only their keys open it')
    .addCommand(key())
    .addCommand(seal())
    .addCommand(open())
    .addCommand(verify())
    .addCommand(list());

const MOST_PARTS = 4096;
const MANIFEST = 'sealed.json';
const shardFile = (index: number): string => `shard-${index}.sealed`;

const keyFlags = { keyFile: text('<file>', 'key file of the worker (default: the data folder)') };

const key = (): Command =>
  commandWith('key', 'print the key to which others may encrypt data for you', keyFlags).action(
    async ({ keyFile }: FlagValues<typeof keyFlags>) => {
      const signer = await homeSigner({ keyFile }, writeNote);
      const { publicKey: x25519 } = await loadSealKeys(signer.publicKey);
      const event = signer.sign(sealKey.build({ use: 'shards', x25519 }, unixSeconds()));
      writeOut(`${JSON.stringify(event)}\n`);
      writeNote('give this line to the owner of the data; the secret part stays here');
    },
  );

const sealFlags = {
  to: { ...required(several('<file>', 'what `nostrain shard key` printed for a recipient')) },
  form: withDefault(choice('<form>', 'lines that stay whole', ['text', 'csv', 'jsonl']), 'text'),
  shards: withDefault(
    whole('<n>', 'parts, of which each recipient gets its share', 1, MOST_PARTS),
    1,
  ),
  out: { ...required(text('<folder>', 'folder for the manifest and the shards')), short: 'o' },
};

interface Recipient {
  readonly worker: string;
  readonly sealKey: string;
}

const seal = (): Command =>
  commandWith('seal', 'encrypt a file in parts; prints the hash that a spec names', sealFlags)
    .argument('<file>', 'text, table with a header (csv), or one document a line (jsonl)')
    .action(async (file: string, { to, form, shards, out }: FlagValues<typeof sealFlags>) => {
      const recipients = await Promise.all(to.map(recipientIn));
      const data = await bytesOf(file);
      const parts = splitLines(data, shards, form === 'csv');
      if (parts.some((part) => part.length === 0)) {
        throw new ConfigError('shard/parts', `${file} has fewer lines than parts`, {
          hint: 'make fewer parts (--shards)',
        });
      }
      await mkdir(out, { recursive: true });
      const manifest = await sealParts(parts, { form, recipients, out });
      await writeFile(join(out, MANIFEST), canonicalManifest(manifest));
      writeOut(`tee://${manifestHash(manifest)}\n`);
      writeNote(`${parts.length} shards of ${formatBytes(data.length)} in all are in ${out}`);
    });

/** Encrypts each part with a key of its own, and wraps that key for the recipient whose turn it is. */
async function sealParts(
  parts: readonly Uint8Array[],
  { form, recipients, out }: { form: SealedForm; recipients: readonly Recipient[]; out: string },
): Promise<SealedManifest> {
  const random = (bytes: number) => globalThis.crypto.getRandomValues(new Uint8Array(bytes));
  const id = toHex(random(KEY_BYTES));
  const shards: SealedShard[] = [];
  const envelopes: SealedManifest['envelopes'][number][] = [];
  for (const [index, part] of parts.entries()) {
    const secret = random(KEY_BYTES);
    const sealed = await encryptShard(part, secret, { id, shard: index });
    await writeFile(join(out, shardFile(index)), sealed);
    const listed = { shard: index, bytes: part.length, digest: toHex(nativeSha256(sealed)) };
    shards.push(listed);
    // with fewer shards than recipients, several have the same one
    const owners = recipients.filter((_, i) =>
      parts.length < recipients.length
        ? i % parts.length === index
        : i === index % recipients.length,
    );
    for (const owner of owners)
      envelopes.push(await wrapKey(id, listed, { ...owner, key: secret }));
  }
  return { id, form, shards, envelopes };
}

async function recipientIn(file: string): Promise<Recipient> {
  const wrong = (why: string, cause?: unknown): ConfigError =>
    new ConfigError('shard/recipient', `${file} ${why}`, {
      hint: 'let the recipient run `nostrain shard key` and send you what it prints',
      cause,
    });
  let json: unknown;
  try {
    json = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw wrong('is not an event', cause);
  }
  const read = parseEvent(json);
  if (!read.ok || !verifyEvent(read.value, nativeCrypto).ok) throw wrong('is not a signed event');
  const parsed = sealKey.parse(read.value);
  if (!parsed.ok) throw wrong('is not an event about a sealing key');
  return { worker: read.value.pubkey, sealKey: parsed.value.x25519 };
}

const openFlags = {
  ...keyFlags,
  out: { ...required(text('<file>', 'file for the data of your shards')), short: 'o' },
};

const open = (): Command =>
  commandWith('open', 'decrypt the shards that are for you into one file', openFlags)
    .argument('<folder>', 'folder with the manifest and the shards')
    .action(async (folder: string, { keyFile, out }: FlagValues<typeof openFlags>) => {
      const manifest = await manifestIn(folder);
      const signer = await homeSigner({ keyFile }, writeNote);
      const worker = signer.publicKey;
      const { secretKey } = await loadSealKeys(worker);
      const mine = manifest.shards.filter(({ shard }) =>
        manifest.envelopes.some((each) => each.shard === shard && each.worker === worker),
      );
      if (mine.length === 0) {
        throw new ConfigError('shard/not-yours', `no shard is for ${toNpub(worker)}`, {
          hint: '`nostrain shard list` shows for whom the shards are',
        });
      }
      const parts: Uint8Array[] = [];
      for (const each of mine) {
        const unwrapped = accepted(await unwrapKey(manifest, each, { worker, secretKey }));
        const place = { id: manifest.id, shard: each.shard, bytes: each.bytes };
        const sealed = await bytesOf(join(folder, shardFile(each.shard)));
        parts.push(accepted(await decryptShard(sealed, unwrapped, place)));
      }
      await writeFile(out, parts, { mode: 0o600 });
      writeNote(`${mine.length} of ${manifest.shards.length} shards are in ${out}, unencrypted`);
    });

const verify = (): Command =>
  new Command('verify')
    .description('check that every shard is the one that the manifest names; needs no key')
    .argument('<folder>', 'folder with the manifest and the shards')
    .addArgument(new Argument('[hash]', 'tee:// hash that the manifest must have'))
    .action(async (folder: string, hash: string | undefined) => {
      const manifest = await manifestIn(folder);
      const actual = `tee://${manifestHash(manifest)}`;
      if (hash !== undefined && hash !== actual) {
        throw new ConfigError('shard/hash', `SealedManifestHashMismatch: it is ${actual}`, {
          hint: 'get the manifest from the owner of the data again',
        });
      }
      for (const { shard: index, digest } of manifest.shards) {
        const sealed = await bytesOf(join(folder, shardFile(index)));
        if (toHex(nativeSha256(sealed)) === digest) continue;
        throw new ConfigError('shard/damaged', `${shardFile(index)} is damaged`, {
          hint: 'get the file from the owner of the data again',
        });
      }
      writeOut(`${actual}\n`);
    });

const list = (): Command =>
  new Command('list')
    .description('show the shards and for whom they are')
    .argument('<folder>', 'folder with the manifest')
    .action(async (folder: string) => {
      const manifest = await manifestIn(folder);
      writeOut(`tee://${manifestHash(manifest)}\n`);
      for (const { shard: index, bytes } of manifest.shards) {
        const owners = manifest.envelopes.filter((each) => each.shard === index);
        const names = owners.map(({ worker }) => toNpub(worker)).join(' ');
        writeOut(`${shardFile(index)}  ${formatBytes(bytes)}  ${names}\n`);
      }
    });

const manifestIn = async (folder: string): Promise<SealedManifest> =>
  accepted(readManifest(new TextDecoder().decode(await bytesOf(join(folder, MANIFEST)))));

/** Returns the value, or throws a ConfigError with the reason of the refusal. */
function accepted<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  const { code, at, message } = result.issue;
  throw new ConfigError(`shard/${code}`, `${at} ${message}`.trim(), {
    hint: 'get the manifest and the shards from the owner of the data again',
  });
}

const bytesOf = (file: string): Promise<Uint8Array> =>
  readBytes(file, 'shard/file', 'name an existing file or folder');
