/** `nostrain shard`: encrypts training data for chosen workers, and opens it again. */

import { writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { sealKey } from '../../../kinds/seal-key.ts';
import { concatBytes, toHex, utf8 } from '../../base/bytes.ts';
import { jsonIn } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes } from '../../base/numbers.ts';
import { newestOf, parseEvent, verifyEvent } from '../../network/event.ts';
import { unixSeconds } from '../../node/checkpoint/directory.ts';
import { linesOf } from '../../node/data/picture-lines.ts';
import {
  fileOfShard,
  openShards,
  type Recipient,
  sealedFilesIn,
  sealedManifest,
  sealParts,
} from '../../node/data/sealed-data.ts';
import { filesIn } from '../../node/data/sources.ts';
import { kindOf } from '../../node/files/atomic-file.ts';
import { readDocument } from '../../node/files/documents.ts';
import { homeSigner, loadSealKeys, toNpub } from '../../node/files/keys.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { SEALED_FILE } from '../../run/chunked-files.ts';
import { readKey } from '../../run/field.ts';
import type { WorkerId } from '../../run/ids.ts';
import { readSpec } from '../../run/spec/read-spec.ts';
import { manifestHash, type SealedForm, type SealedManifest } from '../../sealed/manifest.ts';
import { splitLines } from '../../sealed/shard.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import {
  type FlagValues,
  required,
  several,
  severalOr,
  text,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import { writeNote, writeOut } from '../../terminal/output.ts';
import { readBytes, readText } from '../shared/files.ts';
import { publishEvent, withRelays } from '../shared/with-relays.ts';

const MOST_PARTS = 4096;

const keyFlags = { keyFile: text('<file>', 'key file of the worker (default: the data folder)') };

const USE = 'shards';
const WAIT_MS = 5000;

const reachFlags = {
  relay: severalOr('none', '<url>', 'relay with keys of recipients, repeatable'),
  ...connectionFlags,
};
type ReachFlags = FlagValues<typeof reachFlags>;

const key = defineCommand({
  name: 'key',
  help: 'print or publish the key to which others may encrypt data for you',
  flags: { ...keyFlags, ...reachFlags },
  async run({ keyFile, ...flags }, { signal }) {
    const signer = await homeSigner({ keyFile }, writeNote);
    const { publicKey: x25519 } = await loadSealKeys(signer.publicKey);
    const event = signer.sign(sealKey.build({ use: USE, x25519 }, unixSeconds()));
    writeOut(`${JSON.stringify(event)}\n`);
    const reach = { connection: connectionOf(flags), signal };
    if (flags.relay.length > 0)
      await withRelays(flags.relay, reach, (session) =>
        publishEvent(event, 'sealing key', session),
      );
    else writeNote('give this line to the owner of the data; the secret part stays here');
  },
});

const seal = defineCommand({
  name: 'seal',
  help: 'encrypt data in parts; prints the hash that a spec names',
  args: [['<data...>', 'texts, .csv with a header, .jsonl, or folders of pictures: all alike']],
  flags: {
    to: several('<who>', 'npub of a recipient, or a file with what `nostrain shard key` printed'),
    ...reachFlags,
    run: text('<file>', 'spec of a run on sealed data: encrypt for the same recipients'),
    shards: withDefault(
      whole('<n>', 'parts, of which each recipient gets its share', 1, MOST_PARTS),
      1,
    ),
    out: { ...required(text('<folder>', 'folder for the manifest and the shards')), short: 'o' },
  },
  async run({ to = [], run, shards, out, ...reach }, { args: [data], signal }) {
    const recipients = await recipientsOf(to, run, reach, signal);
    const { form, bytes } = await plainData(data);
    const parts = splitLines(bytes, shards, form === 'csv');
    if (parts.some((part) => part.length === 0)) {
      throw new ConfigError('shard/parts', `${data.join(', ')} has fewer lines than parts`, {
        hint: 'make fewer parts (--shards)',
      });
    }
    const manifest = await sealParts(parts, { form, recipients, out });
    writeOut(`tee://${manifestHash(manifest)}\n`);
    writeNote(`${parts.length} shards of ${formatBytes(bytes.length)} in all are in ${out}`);
  },
});

const FORMS: Readonly<Record<string, SealedForm>> = { '.csv': 'csv', '.jsonl': 'jsonl' };

/** Reads the files to encrypt as one, in lines that stay whole. Throws a ConfigError if they differ in form. */
async function plainData(paths: readonly string[]) {
  const files = await Promise.all(paths.map(plainFile));
  const [{ form, header }] = files as [(typeof files)[0]];
  const odd = files.findIndex((each) => each.form !== form || each.header !== header);
  if (odd > 0) {
    throw new ConfigError('shard/forms', `${paths[odd]} is not like ${paths[0]}`, {
      hint: 'seal files of one form together; tables need the same header',
    });
  }
  const parts = files.flatMap(({ lines }, i) => {
    const isOpen = i + 1 < files.length && lines.at(-1) !== NEWLINE;
    return isOpen ? [lines, Uint8Array.of(NEWLINE)] : [lines];
  });
  return { form, bytes: concatBytes(utf8(header), ...parts) };
}

/** Reads one file or folder; the header of a table is apart. */
async function plainFile(path: string) {
  const isFolder = (await kindOf(path)) === 'folder';
  const form = isFolder ? 'images' : (FORMS[extname(path).toLowerCase()] ?? 'text');
  const bytes = isFolder ? await linesOf(await filesIn(path)) : await bytesOf(path);
  const start = form === 'csv' ? bytes.indexOf(NEWLINE) + 1 : 0;
  const header = new TextDecoder().decode(bytes.subarray(0, start));
  return { form, header, lines: bytes.subarray(start) } as const;
}

const NEWLINE = 10;

/**
 * Returns the recipients that are named, and those of a run. Throws a ConfigError (`shard/recipient`) if nothing names
 * one, or if a file or the relays lack its key.
 */
async function recipientsOf(
  to: readonly string[],
  run: string | undefined,
  flags: ReachFlags,
  signal: AbortSignal,
): Promise<readonly Recipient[]> {
  const listed = run === undefined ? [] : readSpec(await readDocument(run)).sealed.recipients;
  const ofRun = listed.map((pair) => {
    const [worker, sealKey] = pair.split(':') as [string, string];
    return { worker, sealKey };
  });
  const keys = to.flatMap((who) => readKey(who) ?? []);
  const published = await publishedKeys(keys, flags, signal);
  const files = to.filter((who) => readKey(who) === undefined);
  const named = await Promise.all(files.map(recipientIn));
  const recipients = [...published, ...named, ...ofRun];
  // a key may be named twice
  if (recipients.length > 0)
    return [...new Map(recipients.map((each) => [each.worker, each])).values()];
  throw new ConfigError('shard/recipient', 'the data has no recipient', {
    hint: 'name keys with --to npub1… or --to FILE, or a run on sealed data with --run FILE',
  });
}

/** Returns the newest sealing key of each worker that the relays have. */
async function publishedKeys(
  workers: readonly WorkerId[],
  { relay, ...flags }: ReachFlags,
  signal: AbortSignal,
): Promise<readonly Recipient[]> {
  if (workers.length === 0) return [];
  const filter = sealKey.filter({ use: USE }, { authors: workers });
  const reach = { connection: connectionOf(flags), signal };
  const newest =
    relay.length === 0
      ? undefined
      : await withRelays(relay, reach, async ({ relays }) =>
          newestOf((await relays.query([filter], { waitMs: WAIT_MS, signal })).events),
        );
  return workers.map((worker) => {
    const event = newest?.get(worker);
    const parsed = event && sealKey.parse(event);
    if (parsed?.ok) return { worker, sealKey: parsed.value.x25519 };
    throw new ConfigError('shard/recipient', `no relay has a sealing key of ${toNpub(worker)}`, {
      hint: `let its owner run \`nostrain shard key --relay URL\`, and name that relay`,
    });
  });
}

async function recipientIn(file: string): Promise<Recipient> {
  const hint = 'let the recipient run `nostrain shard key` and send you what it prints';
  const wrong = (why: string) => new ConfigError('shard/recipient', `${file} ${why}`, { hint });
  const read = parseEvent(jsonIn(await readText(file, 'shard/file')));
  if (!read.ok || !verifyEvent(read.value, nativeCrypto).ok) throw wrong('is not a signed event');
  const parsed = sealKey.parse(read.value);
  if (!parsed.ok) throw wrong('is not an event about a sealing key');
  return { worker: read.value.pubkey, sealKey: parsed.value.x25519 };
}

const open = defineCommand({
  name: 'open',
  help: 'decrypt the shards that are for you into one file',
  args: [['<folder>', 'folder with the manifest and the shards']],
  flags: {
    ...keyFlags,
    out: { ...required(text('<file>', 'file for the data of your shards')), short: 'o' },
  },
  async run({ keyFile, out }, { args: [folder] }) {
    const manifest = await manifestIn(folder);
    const { publicKey } = await homeSigner({ keyFile }, writeNote);
    const { bytes } = await openShards(manifest, publicKey, await sealedFilesIn(folder));
    await writeFile(out, bytes, { mode: 0o600 });
    writeNote(`${formatBytes(bytes.length)} are in ${out}, unencrypted`);
  },
});

const verify = defineCommand({
  name: 'verify',
  help: 'check that every shard is the one that the manifest names; needs no key',
  args: [
    ['<folder>', 'folder with the manifest and the shards'],
    ['[hash]', 'tee:// hash that the manifest must have'],
  ],
  flags: {},
  async run(_, { args: [folder, hash] }) {
    const manifest = await manifestIn(folder, hash);
    const read = await sealedFilesIn(folder);
    for (const each of manifest.shards) {
      if (toHex(nativeSha256(await read(fileOfShard(each)))) === each.digest) continue;
      throw new ConfigError('shard/damaged', `shard ${each.shard} is damaged`, {
        hint: 'get the file from the owner of the data again',
      });
    }
    writeOut(`tee://${manifestHash(manifest)}\n`);
  },
});

const list = defineCommand({
  name: 'list',
  help: 'show the shards and for whom they are',
  args: [['<folder>', 'folder with the manifest']],
  flags: {},
  async run(_, { args: [folder] }) {
    const manifest = await manifestIn(folder);
    writeOut(`tee://${manifestHash(manifest)}\n`);
    for (const { shard: index, bytes } of manifest.shards) {
      const owners = manifest.envelopes.filter((each) => each.shard === index);
      const names = owners.map(({ worker }) => toNpub(worker)).join(' ');
      writeOut(`shard ${index}  ${formatBytes(bytes)}  ${names}\n`);
    }
  },
});

const manifestIn = async (folder: string, hash?: string): Promise<SealedManifest> =>
  sealedManifest(await bytesOf(join(folder, SEALED_FILE)), hash);

const bytesOf = (file: string): Promise<Uint8Array> =>
  readBytes(file, 'shard/file', 'name an existing file or folder');

export const shard = defineGroup(
  'shard',
  'encrypt training data for chosen workers; only their keys open it',
  [key, seal, open, verify, list],
);
