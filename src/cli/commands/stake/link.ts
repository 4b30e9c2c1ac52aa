/** `nostrain stake link`: links a Solana account to a Nostr key, signed with both keys, and adds the link to a list. */

import { mkdir, readFile } from 'node:fs/promises';
import { systemClock } from '../../../base/async.ts';
import { ConfigError } from '../../../base/errors.ts';
import {
  completeLink,
  type Link,
  linkIssue,
  linkStatement,
  parseAccountKey,
  parseLinks,
  readAccountSig,
  type SignedLink,
  signAsAccount,
} from '../../../chain/psyche/links.ts';
import { dataHome } from '../../../node/files/data-home.ts';
import { loadKey, publicKeyOf } from '../../../node/files/keys.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { fullName } from '../../../run/worker-names.ts';
import { defineCommand } from '../../../terminal/command.ts';
import {
  type FlagValues,
  required,
  text,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut, writeOutput } from '../../../terminal/output.ts';
import { orRefuse, readText } from '../../shared/files.ts';

const DAY = 86_400;

/** CAIP-2 id of the Solana mainnet. */
export const MAINNET = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp';

const linkFlags = {
  run: required(text('<name>', 'Psyche run that the link is for')),
  chain: withDefault(text('<caip2>', 'Solana cluster'), MAINNET),
  accountKey: text('<file>', 'key file of the account, as solana-keygen writes it'),
  account: text('<base58>', 'account whose key is elsewhere: prints the text it must sign'),
  accountSig: text('<sig>', 'signature of the account, as hex or base58; with the same --made'),
  keyFile: text('<file>', 'your Nostr secret key (default: the one in your data folder)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users can see it'),
  made: whole('<s>', 'unix seconds from which the link is valid (default: now)', 0),
  days: withDefault(whole('<n>', 'days the link is valid', 1, 36_500), 365),
  output: { ...text('<file>', 'list of links to add the link to (default: stdout)'), short: 'o' },
};

type LinkFlags = FlagValues<typeof linkFlags>;

export const link = defineCommand({
  name: 'link',
  help: 'link a Solana account to your Nostr key in a Psyche run',
  flags: linkFlags,
  run,
});

async function run(flags: LinkFlags): Promise<void> {
  const dir = dataHome();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { secretKey, notices } = await loadKey({ ...flags, dir });
  for (const notice of notices) writeNote(notice);
  const accountKey =
    flags.accountKey === undefined
      ? undefined
      : orRefuse(flags.accountKey, parseAccountKey(await readText(flags.accountKey)));
  const statement: Link = linkOf(
    flags,
    accountKey?.account ?? flags.account,
    publicKeyOf(secretKey),
  );
  const accountSig = accountKey ? signAsAccount(statement, accountKey) : givenSig(flags);
  if (accountSig === undefined) {
    writeOut(linkStatement(statement));
    writeNote(
      `\nsign exactly this text with ${statement.account}, without a newline at its end, ` +
        `then add: --made ${statement.made} --account-sig SIGNATURE`,
    );
    return;
  }
  const made = completeLink(statement, accountSig, secretKey, nativeCrypto.schnorr);
  if (!made.ok) {
    throw new ConfigError('stake/link', `cannot link ${statement.account}: ${made.issue.message}`, {
      hint: 'use the same --run, --chain, --made, --days and Nostr key as for the signed text',
    });
  }
  await keep(made.value, flags.output);
}

function linkOf(flags: LinkFlags, account: string | undefined, key: string): Link {
  if (account === undefined) {
    throw new ConfigError('flag/missing', 'no account is given', {
      hint: 'add --account-key FILE, or --account BASE58 to have it signed elsewhere',
    });
  }
  if (flags.account !== undefined && flags.account !== account) {
    throw new ConfigError(
      'flag/account',
      `--account-key holds the key of ${account}, not of ${flags.account}`,
      {
        hint: 'leave out --account, or name the key file of that account',
      },
    );
  }
  const made = flags.made ?? Math.floor(systemClock.now() / 1000);
  const { chain, run } = flags;
  const statement = { chain, account, key, run, made, expires: made + DAY * flags.days };
  const issue = linkIssue(statement);
  if (issue === undefined) return statement;
  throw new ConfigError('flag/link', issue, { hint: 'docs/stake.md has an example of a link' });
}

function givenSig({ accountSig, made }: LinkFlags): string | undefined {
  if (accountSig === undefined) return undefined;
  if (made === undefined) {
    throw new ConfigError('flag/missing', '--account-sig needs the --made of the signed text');
  }
  const hex = readAccountSig(accountSig);
  if (hex !== undefined) return hex;
  throw new ConfigError('flag/account-sig', '--account-sig is not a signature', {
    hint: 'give the 64 bytes in hex or base58, as the wallet printed them',
  });
}

/** Adds the link to the list; a file with anything other than links is not overwritten. */
async function keep(made: SignedLink, output: string | undefined): Promise<void> {
  if (output === undefined) {
    writeOut(asJson([made]));
    return;
  }
  const before = await readFile(output, 'utf8').catch(() => undefined);
  const links = before === undefined ? [] : orRefuse(output, parseLinks(before));
  await writeOutput(output, asJson([...links, made]));
  writeNote(`linked ${made.account} to ${fullName(made.key)} in ${made.run}: ${output}`);
}
