/** `nostrain checkpoint pack`: a file of any kind as chunks in a folder. */
import { Command, Option } from 'commander';
import { ConfigError } from '../../../base/errors.ts';
import { formatBytes, formatCount } from '../../../base/numbers.ts';
import {
  type FileManifest,
  LEAST_CHUNK_BYTES,
  MOST_CHUNK_BYTES,
  manifestDigest,
} from '../../../network/chunks/manifest.ts';
import type { Stripe } from '../../../network/chunks/reed-solomon.ts';
import { packFile } from '../../../node/checkpoint/pack.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { byteCount, whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { writeOut } from '../../../terminal/output.ts';

interface Flags {
  readonly out: string;
  readonly chunk: number;
  readonly stripe: Stripe | null;
  readonly threads?: number;
}

const DEFAULT_CHUNK = 2 ** 22;
const MOST_ROWS = 256;

/** The command. */
export const pack = (): Command =>
  new Command('pack')
    .description('cut a file into chunks; prints the digest of the manifest, which names all of it')
    .argument('<file>', 'a state, a model, a text: any file')
    .requiredOption('-o, --out <folder>', 'where the manifest and the chunks go')
    .addOption(
      byteCount(
        '--chunk <bytes>',
        'length of a chunk: 16k to 64m; 16k suits relays',
        LEAST_CHUNK_BYTES,
        MOST_CHUNK_BYTES,
      ).default(DEFAULT_CHUNK, '4m'),
    )
    .addOption(
      new Option('--stripe <k/n>', 'parity: of every n chunks any k restore the rest')
        .argParser(readStripe)
        .default(null, 'none'),
    )
    .addOption(threadsOption())
    .action(async (file: string, { out, chunk, stripe, threads }: Flags) => {
      await interruptibly(async (signal) => {
        const manifest = await packFile(file, out, { chunkBytes: chunk, stripe, threads, signal });
        writeOut(words(manifest, out));
      });
    });

/** How many threads work beside the program itself. */
export const threadsOption = (): Option =>
  whole(
    '--threads <n>',
    'threads that hash beside the program (default: by cores and size)',
    0,
    64,
  );

function words(manifest: FileManifest, out: string): string {
  const { bytes, chunks, parity, stripe, root } = manifest;
  const extra = parity.reduce((sum, _, i) => sum + parityBytes(manifest, i), 0);
  const share = `${((100 * extra) / bytes).toFixed(0)} % more`;
  return [
    `digest   ${manifestDigest(manifest, nativeSha256)}`,
    `bytes    ${formatCount(bytes)} in ${formatCount(chunks.length)} chunks of ${formatBytes(manifest.chunkBytes)}`,
    stripe === null
      ? 'parity   none'
      : `parity   ${formatCount(parity.length)} chunks, ${share}: any ${stripe.data} of ${stripe.data + stripe.parity} restore the rest`,
    ...(root === null ? [] : [`root     ${root}`]),
    `folder   ${out}`,
    '',
  ].join('\n');
}

function parityBytes({ bytes, chunkBytes, stripe }: FileManifest, index: number): number {
  if (stripe === null) return 0;
  const first = Math.floor(index / stripe.parity) * stripe.data;
  return Math.min(chunkBytes, bytes - first * chunkBytes);
}

function readStripe(text: string): Stripe {
  const [, k, n] = /^(\d{1,3})\/(\d{1,3})$/.exec(text) ?? [];
  const stripe = { data: Number(k), parity: Number(n) - Number(k) };
  if (stripe.data >= 1 && stripe.parity >= 1 && Number(n) <= MOST_ROWS) return stripe;
  throw new ConfigError('flag/value', `--stripe is ${JSON.stringify(text)}`, {
    hint: 'say k/n: of n chunks any k restore the rest, for example 4/6; n is at most 256',
  });
}
