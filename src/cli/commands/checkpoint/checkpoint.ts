/**
 * `nostrain checkpoint`: splits large files into self-verifying chunks with parity, and lists, verifies, joins and
 * pushes them.
 */

import { packed as kind } from '../../../../kinds/packed.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import { shareReporter, whileSlow } from '../../../base/slow.ts';
import {
  type FileManifest,
  LEAST_CHUNK_BYTES,
  MOST_CHUNK_BYTES,
  manifestDigest,
  parseManifest,
  piecesOf,
} from '../../../network/chunks/manifest.ts';
import { type ErasureCode, MOST_SHARDS } from '../../../network/chunks/reed-solomon.ts';
import { findAddressed, readAddressed } from '../../../network/wire/addressed.ts';
import { findPacked, pieceFileState, readManifest } from '../../../node/checkpoint/folder.ts';
import { packFile } from '../../../node/checkpoint/pack.ts';
import {
  unpackFolder,
  type VerifiedFolder,
  verifyFolder,
} from '../../../node/checkpoint/unpack.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { defineCommand, defineGroup } from '../../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../../terminal/connection.ts';
import {
  byteCount,
  parsed,
  required,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/text.ts';
import { pushFlags, pushFolders } from '../../shared/chunks.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { fetch } from './fetch.ts';
import { seed } from './seed.ts';

const DEFAULT_CHUNK = 2 ** 22;

/** Number of hashing threads in addition to the main thread. */
const threadsFlag = whole('<n>', 'hashing threads (default: by cores and file size)', 0, 64);

const pack = defineCommand({
  name: 'pack',
  help: 'split a file into chunks; prints the digest of the manifest, which identifies the file',
  args: [['<file>', 'a state, a model, a text: any file']],
  flags: {
    out: { ...required(text('<folder>', 'folder for the manifest and the chunks')), short: 'o' },
    chunk: withDefault(
      byteCount(
        '<bytes>',
        'chunk length: 16k to 64m; use 16k for relays',
        LEAST_CHUNK_BYTES,
        MOST_CHUNK_BYTES,
      ),
      DEFAULT_CHUNK,
      '4m',
    ),
    stripe: withDefault(
      parsed<ErasureCode | null>(
        '<k/n>',
        'parity: any k of every n chunks restore the rest',
        readErasure,
      ),
      null,
      'none',
    ),
    threads: threadsFlag,
  },
  async run({ out, chunk, stripe: erasure, threads }, { args: [file], signal }) {
    const onProgress = shareReporter(`packing ${file}`, writeNote);
    const options = { chunkBytes: chunk, erasure, threads, signal, onProgress };
    const manifest = await packFile(file, out, options);
    writeOut(packWords(manifest, out));
  },
});

function packWords(manifest: FileManifest, out: string): string {
  const { bytes, chunks, parity, erasure, root } = manifest;
  const extra = parity.reduce((sum, _, i) => sum + parityBytes(manifest, i), 0);
  const share = `${((100 * extra) / bytes).toFixed(0)} % more`;
  const count = formatCount(chunks.length);
  const all = erasure === null ? 0 : erasure.data + erasure.parity;
  const rule = `any ${erasure?.data} of ${all} restore the rest`;
  return [
    `digest   ${manifestDigest(manifest, nativeSha256)}`,
    `bytes    ${formatCount(bytes)} in ${count} chunks of ${formatBytes(manifest.chunkBytes)}`,
    erasure === null
      ? 'parity   none'
      : `parity   ${formatCount(parity.length)} chunks, ${share}: ${rule}`,
    ...(root === null ? [] : [`root     ${root}`]),
    `folder   ${out}`,
    '',
  ].join('\n');
}

function parityBytes({ bytes, chunkBytes, erasure }: FileManifest, index: number): number {
  if (erasure === null) return 0;
  const first = Math.floor(index / erasure.parity) * erasure.data;
  return Math.min(chunkBytes, bytes - first * chunkBytes);
}

function readErasure(text: string): ErasureCode {
  const [, k, n] = /^(\d{1,3})\/(\d{1,3})$/.exec(text) ?? [];
  const erasure = { data: Number(k), parity: Number(n) - Number(k) };
  if (erasure.data >= 1 && erasure.parity >= 1 && Number(n) <= MOST_SHARDS) return erasure;
  throw new ConfigError('flag/value', `--stripe is ${JSON.stringify(text)}`, {
    hint: 'use k/n: any k of n chunks restore the rest, for example 4/6; n is at most 256',
  });
}

const verify = defineCommand({
  name: 'verify',
  help: 'list every missing or changed chunk; exit code 1 if there are any',
  args: [['<folder>', 'what `checkpoint pack` or `fetch` wrote']],
  flags: {
    quick: toggle(
      'check only the BLAKE3 of each chunk, not SHA-256 and not the hashes of the whole file',
    ),
    threads: threadsFlag,
    json: toggle('print JSON'),
  },
  async run({ quick, threads, json }, { args: [folder], signal }) {
    const manifest = await readManifest(folder);
    const verified = await whileSlow(`verifying ${folder}`, writeNote, () =>
      verifyFolder(folder, manifest, { isQuick: quick, threads, signal }),
    );
    writeOut(json ? asJson(documentOf(manifest, verified)) : verifyWords(manifest, verified));
    if (verified.damage.length > 0 || verified.whole === false) {
      process.exitCode = exitCodes.failed.code;
    }
  },
});

function documentOf(manifest: FileManifest, { damage, beyond, whole }: VerifiedFolder) {
  return {
    /** SHA-256 of the manifest. */
    digest: manifestDigest(manifest, nativeSha256),
    bytes: manifest.bytes,
    /** Number of chunks, parity chunks included. */
    chunks: piecesOf(manifest).length,
    damage: damage.map(({ piece: { name, sha256, blake3, group }, what }) => ({
      name,
      what,
      stripe: group,
      sha256,
      blake3,
    })),
    /** True if parity restores all damaged chunks. */
    restorable: beyond.length === 0,
    /** True if the whole file has the hashes of the manifest; null if that was not checked. */
    whole: whole ?? null,
  };
}

function verifyWords(manifest: FileManifest, { damage, beyond, whole }: VerifiedFolder): string {
  const all = piecesOf(manifest).length;
  const lines = damage.map(({ piece, what }) => `${what.padEnd(8)} ${piece.name}  ${piece.sha256}`);
  return `${[...lines, verdict(all, damage.length, beyond, whole)].join('\n')}\n`;
}

function verdict(
  all: number,
  damaged: number,
  beyond: readonly number[],
  whole: boolean | undefined,
): string {
  if (damaged > 0) {
    const cure =
      beyond.length === 0
        ? '`checkpoint unpack` restores them from parity'
        : `parity cannot restore group ${beyond.join(', ')}`;
    return `${damaged} of ${formatCount(all)} chunks are missing or changed; ${cure}`;
  }
  if (whole === false)
    return 'every chunk is valid, but the whole file does not match the manifest';
  const what = whole === undefined ? '' : ', and so is the whole file';
  return `all ${formatCount(all)} chunks are valid${what}`;
}

const unpack = defineCommand({
  name: 'unpack',
  help: 'rebuild the file, using parity if chunks are missing or changed',
  args: [['<folder>', 'what `checkpoint pack` or `fetch` wrote']],
  flags: {
    out: { ...required(text('<file>', 'file to write')), short: 'o' },
    mend: toggle('also write restored chunks into the folder'),
    threads: threadsFlag,
  },
  async run({ out, mend = false, threads }, { args: [folder], signal }) {
    const manifest = await readManifest(folder);
    await unpackFolder(folder, manifest, out, {
      threads,
      signal,
      isMending: mend,
      onProgress: shareReporter(`unpacking ${folder}`, writeNote),
      onRestored: ({ name, sha256 }) => writeNote(`restored ${name}  ${sha256}`),
    });
    writeOut(`${formatCount(manifest.bytes)} bytes in ${out}, SHA-256 ${manifest.sha256}\n`);
  },
});

interface Listed {
  /** Null for a file on relays. */
  readonly folder: string | null;
  /** SHA-256 of the manifest. */
  readonly digest: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Number of chunks, parity chunks included. */
  readonly chunks: number;
  /** Chunks that have a file of the right length here; only `verify` reads them. Null for a file on relays. */
  readonly here: number | null;
  /** Erasure code: any `k` of every `n` chunks restore the rest; null without parity. */
  readonly stripe: { readonly k: number; readonly n: number } | null;
}

/** Maximum number of files listed per relay: anybody may have pushed them. */
const MOST_LISTED = 200;
/** Maximum number of chunked manifests that are downloaded: each costs one more query. */
const MOST_LONG = 16;
const FIND_MS = 15_000;

const list = defineCommand({
  name: 'list',
  help: 'list the chunked files in a folder or in the folders inside it, or on relays',
  args: [['[folder]', 'folder to search', '.']],
  flags: {
    from: several('<relay>', 'list the files on this relay instead, repeatable'),
    json: toggle('print JSON'),
    ...connectionFlags,
  },
  async run({ from = [], json, ...flags }, { args: [folder], signal }) {
    const reach = { connection: connectionOf(flags), signal };
    const packed: Listed[] = [];
    if (from.length > 0) packed.push(...(await withRelays(from, reach, listAt)));
    else for (const each of await findPacked(folder)) packed.push(await describe(each));
    writeOut(json ? asJson({ packed }) : listWords(packed, from.length > 0 ? undefined : folder));
  },
});

/** Returns the files whose manifests the relays have and that match their digest. */
async function listAt(
  relaySession: Parameters<typeof findAddressed>[2],
): Promise<readonly Listed[]> {
  const { relays, signal } = relaySession;
  const filter = { ...kind.filter({}), limit: MOST_LISTED };
  const { events } = await relays.query([filter], { waitMs: FIND_MS, signal });
  const texts = new Map<string, Uint8Array>();
  const long = new Set<string>();
  for (const event of events.slice(0, MOST_LISTED * relays.relays.length)) {
    const read = readAddressed(kind, event, nativeSha256);
    if (!read.ok) continue;
    if ('content' in read.value) texts.set(read.value.id, read.value.content);
    else long.add(read.value.id);
  }
  for (const id of [...long].slice(0, MOST_LONG)) {
    const body = await findAddressed(kind, id, relaySession);
    if (body.ok) texts.set(toHex(nativeSha256(body.value)), body.value);
  }
  return [...texts.values()].flatMap((text) => {
    const parsed = parseManifest(new TextDecoder().decode(text));
    return parsed.ok ? [{ folder: null, ...summarize(parsed.value), here: null }] : [];
  });
}

/** Returns the part of a list entry that the manifest holds. */
function summarize(manifest: FileManifest) {
  const { bytes, sha256, erasure, chunks, parity } = manifest;
  return {
    digest: manifestDigest(manifest, nativeSha256),
    bytes,
    sha256,
    chunks: chunks.length + parity.length,
    stripe: erasure && { k: erasure.data, n: erasure.data + erasure.parity },
  };
}

async function describe(folder: string): Promise<Listed> {
  const manifest = await readManifest(folder);
  let present = 0;
  for (const piece of piecesOf(manifest))
    if ((await pieceFileState(folder, piece)) === 'there') present++;
  const { stripe: erasure, ...rest } = summarize(manifest);
  return { folder, ...rest, here: present, stripe: erasure };
}

function listWords(packed: readonly Listed[], folder: string | undefined): string {
  if (packed.length === 0) {
    return folder === undefined
      ? 'the relays have no chunked files\n  try: nostrain checkpoint push FOLDER --to RELAY\n'
      : `no chunked files in ${folder}\n  try: nostrain checkpoint pack FILE --out ${folder}\n`;
  }
  const heading = ['folder', 'digest', 'size', 'chunks', 'here', 'stripe'];
  const rows = packed.map((each) => [
    each.folder ?? '-',
    each.digest,
    formatBytes(each.bytes),
    formatCount(each.chunks),
    each.here === null ? '-' : formatCount(each.here),
    each.stripe === null ? '-' : `${each.stripe.k}/${each.stripe.n}`,
  ]);
  return `${alignColumns([heading, ...rows], process.stdout.columns || 140).join('\n')}\n`;
}

const push = defineCommand({
  name: 'push',
  help:
    'store the chunks of a folder and their manifest on relays, on Blossom servers or in ' +
    'folders',
  args: [['<folder>', 'what `checkpoint pack` or `fetch` wrote']],
  flags: {
    to: required(
      several(
        '<mirror>',
        'where to store: wss://… of a relay, https://… of a Blossom server, or a folder, ' +
          'repeatable',
      ),
    ),
    mirror: text('<url>', 'URL from which servers fetch missing chunks (BUD-04)'),
    ...connectionFlags,
    ...pushFlags,
  },
  async run(flags, { args: [folder], signal }) {
    await pushFolders([folder], flags, signal);
  },
});

export const checkpoint = defineGroup(
  'checkpoint',
  'split a file into self-verifying chunks with parity; verify, join, fetch and serve ' + 'them',
  [pack, verify, unpack, list, fetch, seed, push],
);
