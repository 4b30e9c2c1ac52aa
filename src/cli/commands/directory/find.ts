/** `nostrain directory find`: the holders of an object by its digest, from relays and from holder servers. */
import { Command } from 'commander';
import { isHex32 } from '../../../base/bytes.ts';
import { ConfigError, safeLine } from '../../../base/errors.ts';
import { type FoundHolders, findHolders } from '../../../node/checkpoint/find-holders.ts';
import { exitCodes } from '../../../terminal/exit-codes.ts';
import { whole } from '../../../terminal/flags.ts';
import { interruptibly } from '../../../terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { addDirectoryFlags, type DirectoryFlags, withDirectory } from '../../shared/directory.ts';

interface Flags extends DirectoryFlags {
  readonly enough: number;
  readonly json?: boolean;
}

interface FindDocument {
  readonly object: string;
  /** `relays` where they knew enough holders, else `holders`. */
  readonly by: FoundHolders['by'];
  /** Holders that were asked. */
  readonly asks: number;
  /** Asks after each other on the way to the last holder found. */
  readonly hops: number;
  readonly holders: readonly {
    readonly key: string;
    readonly region: string;
    readonly tier: string;
    /** Addresses of its holder server. */
    readonly contacts: readonly string[];
    /** Unix seconds. */
    readonly expiresAt: number;
  }[];
}

export const directoryFind = (): Command =>
  addDirectoryFlags(
    new Command('find')
      .description('print who says it holds an object')
      .argument('<digest>', 'what `checkpoint pack` printed: 64 hex digits')
      .addOption(whole('--enough <n>', 'ask on until so many holders are known', 1, 16).default(3))
      .option('--json', 'print JSON'),
  ).action((digest: string, flags: Flags) =>
    interruptibly((signal) => find(digest, flags, signal)),
  );

async function find(digest: string, flags: Flags, signal: AbortSignal): Promise<void> {
  if (!isHex32(digest)) {
    throw new ConfigError('directory/digest', `${safeLine(digest)} is no digest`, {
      hint: 'give the 64 hex digits that `nostrain checkpoint pack` or `list` prints',
    });
  }
  if (flags.directory.length === 0) {
    throw new ConfigError('flag/directory', 'there is nobody to ask', {
      hint: 'name relays or holder servers with --directory URL',
    });
  }
  const found = await withDirectory(flags, { signal }, (search) =>
    findHolders(digest, flags.enough, search),
  );
  const { by, asks, hops } = found;
  const holders = found.holders.map(({ key, region, tier, contacts, expiresAt }) => ({
    key,
    region,
    tier,
    contacts,
    expiresAt,
  }));
  const document: FindDocument = { object: digest, by, asks, hops, holders };
  writeOut(flags.json ? asJson(document) : words(document));
  if (holders.length > 0) return;
  writeNote('nobody is known to hold it');
  process.exitCode = exitCodes.failed.code;
}

const words = ({ holders }: FindDocument): string =>
  holders
    .map(
      ({ key, region, tier, contacts }) =>
        `${contacts.join(' ')}  ${key}  region ${region}, tier ${tier} (self-reported)\n`,
    )
    .join('');
