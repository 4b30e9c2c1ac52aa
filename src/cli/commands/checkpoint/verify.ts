/** `nostrain checkpoint verify`: whether a folder holds what its manifest says, chunk by chunk. */
import { Command } from 'commander';
import { formatCount } from '../../../base/numbers.ts';
import { type FileManifest, manifestDigest, piecesOf } from '../../../network/chunks/manifest.ts';
import { readManifest } from '../../../node/checkpoint/folder.ts';
import { type Verified, verifyFolder } from '../../../node/checkpoint/verify.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { exitCodes } from '../../../terminal/exit-codes.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeOut } from '../../../terminal/output.ts';
import { threadsOption } from './pack.ts';

interface Flags {
  readonly quick?: boolean;
  readonly threads?: number;
  readonly json?: boolean;
}

/** The command. */
export const verify = (): Command =>
  new Command('verify')
    .description('name every chunk that is lost or changed; exit code 1 where one is')
    .argument('<folder>', 'what `checkpoint pack` or `fetch` wrote')
    .option('--quick', 'BLAKE3 of the chunks alone, neither SHA-256 nor the hashes of the whole')
    .addOption(threadsOption())
    .option('--json', 'print JSON')
    .action(async (folder: string, { quick, threads, json }: Flags) => {
      await interruptibly(async (signal) => {
        const manifest = await readManifest(folder);
        const verified = await verifyFolder(folder, manifest, { isQuick: quick, threads, signal });
        writeOut(json ? asJson(documentOf(manifest, verified)) : words(manifest, verified));
        if (verified.damage.length > 0 || verified.whole === false) {
          process.exitCode = exitCodes.failed.code;
        }
      });
    });

function documentOf(manifest: FileManifest, { damage, beyond, whole }: Verified) {
  return {
    /** SHA-256 of the manifest. */
    digest: manifestDigest(manifest, nativeSha256),
    bytes: manifest.bytes,
    /** Chunks and parity chunks. */
    chunks: piecesOf(manifest).length,
    damage: damage.map(({ piece: { name, sha256, blake3, stripe }, what }) => ({
      name,
      what,
      stripe,
      sha256,
      blake3,
    })),
    /** Whether parity restores all that is damaged. */
    restorable: beyond.length === 0,
    /** Whether the whole has its hashes; null where that was not looked at. */
    whole: whole ?? null,
  };
}

function words(manifest: FileManifest, { damage, beyond, whole }: Verified): string {
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
        : `parity does not restore stripe ${beyond.join(', ')}`;
    return `${damaged} of ${formatCount(all)} chunks are lost or changed; ${cure}`;
  }
  if (whole === false) return 'every chunk is right, but the whole is not what the manifest says';
  const what = whole === undefined ? '' : ', and so is the whole';
  return `all ${formatCount(all)} chunks are right${what}`;
}
