/** `nostrain checkpoint list`: chunked files in a folder, and how much of each is there. */
import { Command } from 'commander';
import { manifestDigest, piecesOf } from '../../../checkpoint/manifest.ts';
import { findPacked, lookFor, readManifest } from '../../../node/checkpoint/folder.ts';
import { nativeSha256 } from '../../../node/native-sha256.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { alignColumns } from '../../../terminal/render/columns.ts';
import { formatBytes, formatCount } from '../../../terminal/render/numbers.ts';

interface Listed {
  readonly folder: string;
  /** SHA-256 of the manifest. */
  readonly digest: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Chunks and parity chunks. */
  readonly chunks: number;
  /** Of these, files of the right length; `verify` reads them. */
  readonly here: number;
  /** Of every `n` chunks any `k` restore the rest; null without parity. */
  readonly stripe: { readonly k: number; readonly n: number } | null;
}

/** The command. */
export const list = (): Command =>
  new Command('list')
    .description('list the chunked files in a folder, or in the folders inside it')
    .argument('[folder]', 'where to look', '.')
    .option('--json', 'print JSON')
    .action(async (folder: string, { json }: { readonly json?: boolean }) => {
      const packed: Listed[] = [];
      for (const each of await findPacked(folder)) packed.push(await describe(each));
      writeOut(json ? asJson({ packed }) : words(packed, folder));
    });

async function describe(folder: string): Promise<Listed> {
  const manifest = await readManifest(folder);
  const { bytes, sha256, stripe } = manifest;
  const pieces = piecesOf(manifest);
  let here = 0;
  for (const piece of pieces) if ((await lookFor(folder, piece)) === 'there') here++;
  return {
    ...{ folder, digest: manifestDigest(manifest, nativeSha256), bytes, sha256 },
    ...{ chunks: pieces.length, here },
    stripe: stripe && { k: stripe.data, n: stripe.data + stripe.parity },
  };
}

function words(packed: readonly Listed[], folder: string): string {
  if (packed.length === 0) {
    return `no chunked files in ${folder}\n  try: nostrain checkpoint pack FILE --out ${folder}\n`;
  }
  const heading = ['folder', 'digest', 'size', 'chunks', 'here', 'stripe'];
  const rows = packed.map((each) => [
    each.folder,
    each.digest,
    formatBytes(each.bytes),
    formatCount(each.chunks),
    formatCount(each.here),
    each.stripe === null ? '-' : `${each.stripe.k}/${each.stripe.n}`,
  ]);
  return `${alignColumns([heading, ...rows], process.stdout.columns || 140).join('\n')}\n`;
}
