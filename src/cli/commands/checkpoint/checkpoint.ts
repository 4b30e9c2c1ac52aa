/**
 * `nostrain checkpoint`: large files as chunks that verify themselves, with parity, and getting them from wherever
 * they are.
 */

import { Command } from 'commander';
import { packed as kind } from '../../../../kinds/packed.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
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
import { connectionFlags, connectionOf } from '../../../terminal/connection.ts';
import {
  byteCount,
  commandWith,
  type FlagValues,
  parsed,
  required,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, exitCodes, writeNote, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/text.ts';
import { pushFlags, pushFolders } from '../../shared/chunks.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { fetch } from './fetch.ts';
import { seed } from './seed.ts';

export const checkpoint = (): Command =>
  new Command('checkpoint')
    .description(
      'cut a file into chunks that verify themselves, with parity; ' +
        'check, join, fetch and serve them',
    )
    .addCommand(pack())
    .addCommand(verify())
    .addCommand(unpack())
    .addCommand(list())
    .addCommand(fetch())
    .addCommand(seed())
    .addCommand(push());

const DEFAULT_CHUNK = 2 ** 22;

/** How many threads work beside the program itself. */
const threadsFlag = whole(
  '<n>',
  'threads that hash beside the program (default: by cores and size)',
  0,
  64,
);

const packFlags = {
  out: { ...required(text('<folder>', 'where the manifest and the chunks go')), short: 'o' },
  chunk: withDefault(
    byteCount(
      '<bytes>',
      'length of a chunk: 16k to 64m; 16k suits relays',
      LEAST_CHUNK_BYTES,
      MOST_CHUNK_BYTES,
    ),
    DEFAULT_CHUNK,
    '4m',
  ),
  stripe: withDefault(
    parsed<ErasureCode | null>(
      '<k/n>',
      'parity: of every n chunks any k restore the rest',
      readErasure,
    ),
    null,
    'none',
  ),
  threads: threadsFlag,
};

type PackFlags = FlagValues<typeof packFlags>;

const pack = (): Command =>
  commandWith(
    'pack',
    'cut a file into chunks; prints the digest of the manifest, which names all of it',
    packFlags,
  )
    .argument('<file>', 'a state, a model, a text: any file')
    .action(async (file: string, { out, chunk, stripe: erasure, threads }: PackFlags) => {
      await interruptibly(async (signal) => {
        const manifest = await packFile(file, out, { chunkBytes: chunk, erasure, threads, signal });
        writeOut(packWords(manifest, out));
      });
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
    hint: 'say k/n: of n chunks any k restore the rest, for example 4/6; n is at most 256',
  });
}

const verifyFlags = {
  quick: toggle('BLAKE3 of the chunks alone, neither SHA-256 nor the hashes of the whole'),
  threads: threadsFlag,
  json: toggle('print JSON'),
};

type VerifyFlags = FlagValues<typeof verifyFlags>;

const verify = (): Command =>
  commandWith(
    'verify',
    'name every chunk that is lost or changed; exit code 1 where one is',
    verifyFlags,
  )
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .action(async (folder: string, { quick, threads, json }: VerifyFlags) => {
      await interruptibly(async (signal) => {
        const manifest = await readManifest(folder);
        const verified = await verifyFolder(folder, manifest, { isQuick: quick, threads, signal });
        writeOut(json ? asJson(documentOf(manifest, verified)) : verifyWords(manifest, verified));
        if (verified.damage.length > 0 || verified.whole === false) {
          process.exitCode = exitCodes.failed.code;
        }
      });
    });

function documentOf(manifest: FileManifest, { damage, beyond, whole }: VerifiedFolder) {
  return {
    /** SHA-256 of the manifest. */
    digest: manifestDigest(manifest, nativeSha256),
    bytes: manifest.bytes,
    /** Chunks and parity chunks. */
    chunks: piecesOf(manifest).length,
    damage: damage.map(({ piece: { name, sha256, blake3, group }, what }) => ({
      name,
      what,
      stripe: group,
      sha256,
      blake3,
    })),
    /** Whether parity restores all that is damaged. */
    restorable: beyond.length === 0,
    /** Whether the whole has its hashes; null where that was not looked at. */
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
        : `parity does not restore group ${beyond.join(', ')}`;
    return `${damaged} of ${formatCount(all)} chunks are lost or changed; ${cure}`;
  }
  if (whole === false) return 'every chunk is right, but the whole is not what the manifest says';
  const what = whole === undefined ? '' : ', and so is the whole';
  return `all ${formatCount(all)} chunks are right${what}`;
}

const unpackFlags = {
  out: { ...required(text('<file>', 'where the file goes')), short: 'o' },
  mend: toggle('put restored chunks into the folder too'),
  threads: threadsFlag,
};

type UnpackFlags = FlagValues<typeof unpackFlags>;

const unpack = (): Command =>
  commandWith(
    'unpack',
    'make the file again, from parity where chunks are lost or changed',
    unpackFlags,
  )
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .action(async (folder: string, { out, mend = false, threads }: UnpackFlags) => {
      await interruptibly(async (signal) => {
        const manifest = await readManifest(folder);
        await unpackFolder(folder, manifest, out, {
          threads,
          signal,
          isMending: mend,
          onRestored: ({ name, sha256 }) => writeNote(`restored ${name}  ${sha256}`),
        });
        writeOut(`${formatCount(manifest.bytes)} bytes in ${out}, SHA-256 ${manifest.sha256}\n`);
      });
    });

interface Listed {
  /** Null of what relays have. */
  readonly folder: string | null;
  /** SHA-256 of the manifest. */
  readonly digest: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Chunks and parity chunks. */
  readonly chunks: number;
  /** Of these, files of the right length; `verify` reads them. Null of what relays have. */
  readonly here: number | null;
  /** Of every `n` chunks any `k` restore the rest; null without parity. */
  readonly stripe: { readonly k: number; readonly n: number } | null;
}

/** Files of strangers that are looked at. */
const MOST_LISTED = 200;
/** Manifests that travel as chunks themselves, each of which is asked for. */
const MOST_LONG = 16;
const FIND_MS = 15_000;

const listFlags = {
  from: several('<relay>', 'list what was pushed to this relay instead, repeatable'),
  json: toggle('print JSON'),
  ...connectionFlags,
};

type ListFlags = FlagValues<typeof listFlags>;

const list = (): Command =>
  commandWith(
    'list',
    'list the chunked files in a folder or in the folders inside it, or on relays',
    listFlags,
  )
    .argument('[folder]', 'where to look', '.')
    .action(async (folder: string, flags: ListFlags) => {
      const { from = [], json } = flags;
      const packed: Listed[] = [];
      if (from.length > 0)
        packed.push(...(await interruptibly((signal) => listAt(from, flags, signal))));
      else for (const each of await findPacked(folder)) packed.push(await describe(each));
      writeOut(json ? asJson({ packed }) : listWords(packed, from.length > 0 ? undefined : folder));
    });

/** What relays have the right manifest of. */
async function listAt(
  urls: readonly string[],
  flags: ListFlags,
  signal: AbortSignal,
): Promise<readonly Listed[]> {
  const reach = { connection: connectionOf(flags), signal };
  const manifests = await withRelays(urls, reach, manifestsAt);
  return manifests.map((manifest) => ({ folder: null, ...said(manifest), here: null }));
}

async function manifestsAt(
  relaySession: Parameters<typeof findAddressed>[2],
): Promise<FileManifest[]> {
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
    const found = await findAddressed(kind, id, relaySession);
    if (found.ok) texts.set(toHex(nativeSha256(found.value)), found.value);
  }
  return [...texts.values()].flatMap((text) => {
    const parsed = parseManifest(new TextDecoder().decode(text));
    return parsed.ok ? [parsed.value] : [];
  });
}

/** What a manifest says. */
function said(manifest: FileManifest) {
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
  let here = 0;
  for (const piece of piecesOf(manifest))
    if ((await pieceFileState(folder, piece)) === 'there') here++;
  const { stripe: erasure, ...rest } = said(manifest);
  return { folder, ...rest, here, stripe: erasure };
}

/** For people; `folder` is undefined where relays were asked. */
function listWords(packed: readonly Listed[], folder: string | undefined): string {
  if (packed.length === 0) {
    return folder === undefined
      ? 'no chunked files are there\n  try: nostrain checkpoint push FOLDER --to RELAY\n'
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

const pushToFlags = {
  to: required(
    several(
      '<mirror>',
      'wss://… of a relay, https://… of a Blossom server, or a folder, repeatable',
    ),
  ),
  mirror: text('<url>', 'let servers fetch from there what they have not got (BUD-04)'),
  ...connectionFlags,
  ...pushFlags,
};

const push = (): Command =>
  commandWith(
    'push',
    'store the chunks of a folder and their manifest on relays, ' +
      'on Blossom servers or in folders',
    pushToFlags,
  )
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .action(async (folder: string, flags: FlagValues<typeof pushToFlags>) => {
      await interruptibly((signal) => pushFolders([folder], flags, signal));
    });
