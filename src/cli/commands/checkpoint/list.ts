/** `nostrain checkpoint list`: chunked files in a folder, and how much of each is there; or those whose manifests relays have. */
import { Command } from 'commander';
import { packed as kind } from '../../../../kinds/packed.ts';
import { toHex } from '../../../base/bytes.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import {
  type FileManifest,
  manifestDigest,
  parseManifest,
  piecesOf,
} from '../../../network/chunks/manifest.ts';
import { findAddressed, readAddressed } from '../../../network/wire/addressed.ts';
import { findPacked, lookFor, readManifest } from '../../../node/checkpoint/folder.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import { repeatable } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { withRelays } from '../../shared/with-relays.ts';

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

interface Flags extends ConnectionFlags {
  readonly from?: readonly string[];
  readonly json?: boolean;
}

/** Files of strangers that are looked at. */
const MOST_LISTED = 200;
/** Manifests that travel as chunks themselves, each of which is asked for. */
const MOST_LONG = 16;
const FIND_MS = 15_000;

/** The command. */
export const list = (): Command =>
  addConnectionFlags(
    new Command('list')
      .description('list the chunked files in a folder or in the folders inside it, or on relays')
      .argument('[folder]', 'where to look', '.')
      .addOption(
        repeatable('--from <relay>', 'list what was pushed to this relay instead, repeatable'),
      )
      .option('--json', 'print JSON'),
  ).action(async (folder: string, flags: Flags) => {
    const { from = [], json } = flags;
    const packed: Listed[] = [];
    if (from.length > 0)
      packed.push(...(await interruptibly((signal) => listAt(from, flags, signal))));
    else for (const each of await findPacked(folder)) packed.push(await describe(each));
    writeOut(json ? asJson({ packed }) : words(packed, from.length > 0 ? undefined : folder));
  });

/** What relays have the right manifest of. */
async function listAt(
  urls: readonly string[],
  flags: Flags,
  signal: AbortSignal,
): Promise<readonly Listed[]> {
  const reach = { connection: connectionOf(flags), signal };
  const manifests = await withRelays(urls, reach, manifestsAt);
  return manifests.map((manifest) => ({ folder: null, ...said(manifest), here: null }));
}

async function manifestsAt(board: Parameters<typeof findAddressed>[2]): Promise<FileManifest[]> {
  const { relays, signal } = board;
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
    const found = await findAddressed(kind, id, board);
    if (found.ok) texts.set(toHex(nativeSha256(found.value)), found.value);
  }
  return [...texts.values()].flatMap((text) => {
    const parsed = parseManifest(new TextDecoder().decode(text));
    return parsed.ok ? [parsed.value] : [];
  });
}

/** What a manifest says. */
function said(manifest: FileManifest) {
  const { bytes, sha256, stripe, chunks, parity } = manifest;
  return {
    digest: manifestDigest(manifest, nativeSha256),
    bytes,
    sha256,
    chunks: chunks.length + parity.length,
    stripe: stripe && { k: stripe.data, n: stripe.data + stripe.parity },
  };
}

async function describe(folder: string): Promise<Listed> {
  const manifest = await readManifest(folder);
  let here = 0;
  for (const piece of piecesOf(manifest)) if ((await lookFor(folder, piece)) === 'there') here++;
  const { stripe, ...rest } = said(manifest);
  return { folder, ...rest, here, stripe };
}

/** For people; `folder` is undefined where relays were asked. */
function words(packed: readonly Listed[], folder: string | undefined): string {
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
