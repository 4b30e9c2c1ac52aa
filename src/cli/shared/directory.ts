/** The directory of holders for commands: relays and holder servers that a person names, asked and told. */
import { type Command, InvalidArgumentError } from 'commander';
import { systemClock } from '../../base/async.ts';
import type { Signer } from '../../network/event.ts';
import { isRelayUrl } from '../../network/transport/relay-urls.ts';
import { createAskHttp } from '../../node/checkpoint/ask-http.ts';
import { createDirectoryPort } from '../../node/checkpoint/directory-route.ts';
import type { DirectorySearch, HolderRelays } from '../../node/checkpoint/find-holders.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import {
  addConnectionFlags,
  type ConnectionFlags,
  connectionOf,
} from '../../terminal/connection.ts';
import { repeatable } from '../../terminal/flags.ts';
import { withRelays } from './with-relays.ts';

export interface DirectoryFlags extends ConnectionFlags {
  readonly directory: readonly string[];
  readonly allowPrivate?: boolean;
}

/** `--directory`, `--allow-private`, and how to deal with relays. */
export const addDirectoryFlags = (command: Command): Command =>
  addConnectionFlags(command)
    .addOption(
      repeatable(
        '--directory <url>',
        'relay (wss://…) or holder server (https://…) to ask and tell who holds what, repeatable',
      )
        .argParser((url: string, before: readonly string[] | undefined) => [
          ...(before ?? []),
          checked(url),
        ])
        .default([], 'none'),
    )
    .option('--allow-private', 'ask holders at private addresses that others name too');

function checked(url: string): string {
  if (isRelayUrl(url) || (/^https?:\/\//i.test(url) && URL.canParse(url))) {
    return url.replace(/\/+$/, '');
  }
  throw new InvalidArgumentError('say wss://… of a relay or https://… of a holder server');
}

export const unixSeconds = (): number => Math.floor(systemClock.now() / 1000);

/** Does the work with what `--directory` names. */
export function withDirectory<T>(
  flags: DirectoryFlags,
  { signer, signal }: { readonly signer?: Signer; readonly signal: AbortSignal },
  work: (search: DirectorySearch) => Promise<T>,
): Promise<T> {
  const allowPrivate = flags.allowPrivate === true;
  const now = unixSeconds;
  const port = createDirectoryPort({
    http: createAskHttp({ isTrusted: false, allowPrivate }),
    peerHttp: createAskHttp({ isTrusted: true, allowPrivate }),
    now,
    allowPrivate,
    signal,
    crypto: nativeCrypto,
  });
  const urls = flags.directory.filter(isRelayUrl);
  const peers = flags.directory.filter((url) => !isRelayUrl(url));
  const waitMs = 1000 * flags.timeout;
  const search = (relays: HolderRelays | undefined): DirectorySearch => ({
    relays,
    peers,
    port,
    now,
    allowPrivate,
    waitMs,
    signal,
  });
  if (urls.length === 0) return work(search(undefined));
  const reach = { connection: connectionOf(flags), signer, signal };
  return withRelays(urls, reach, (board) => work(search(board.relays)));
}
