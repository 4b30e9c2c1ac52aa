/** Creates links between an account and a Nostr key; the account signs here or elsewhere, for example in a wallet. */
import { ed25519 } from '@noble/curves/ed25519.js';
import { base58 } from '@scure/base';
import { fromHex, toHex, utf8 } from '../../base/bytes.ts';
import { sha256 } from '../../base/hash.ts';
import { ok, type Result, refuse } from '../../base/result.ts';
import type { Schnorr } from '../../network/event-crypto.ts';
import {
  fromBase58,
  isLink,
  type Link,
  linkStatement,
  parseLinks,
  type SignedLink,
} from './links.ts';

/** An ed25519 key as `solana-keygen` keeps it: 64 numbers, the secret and then the public key. */
export interface AccountKey {
  /** 32 bytes. */
  readonly secret: Uint8Array;
  /** Base58 of the public key. */
  readonly account: string;
}

/** The key in such a file. */
export function parseAccountKey(text: string): Result<AccountKey> {
  const broken = (message: string) => refuse('bad-key', 'account key', message);
  const numbers = parsed(text);
  if (!Array.isArray(numbers) || numbers.length !== 64) return broken('not a list of 64 numbers');
  const isByte = (value: unknown) =>
    Number.isInteger(value) && Number(value) >= 0 && Number(value) < 256;
  if (!numbers.every(isByte)) return broken('not a list of 64 numbers from 0 to 255');
  const bytes = Uint8Array.from(numbers as number[]);
  const [secret, publicKey] = [bytes.slice(0, 32), bytes.slice(32)];
  return toHex(ed25519.getPublicKey(secret)) === toHex(publicKey)
    ? ok({ secret, account: base58.encode(publicKey) })
    : broken('its last 32 numbers are not the public key of its first');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What the account signs: hex of ed25519 over the statement. */
export const signAsAccount = (link: Link, { secret }: AccountKey): string =>
  toHex(ed25519.sign(utf8(linkStatement(link)), secret));

/** A signature of 64 bytes as wallets write it: hex or base58. */
export function readAccountSig(text: string): string | undefined {
  const bytes = fromHex(text.toLowerCase()) ?? fromBase58(text, 64);
  return bytes?.length === 64 ? toHex(bytes) : undefined;
}

/** Why nobody would read such a link, whoever signed it; undefined when it is sound. */
export function linkIssue(link: Link): string | undefined {
  if (fromBase58(link.account) === undefined) return `${link.account} is no Solana account`;
  if (link.expires <= link.made) return 'it is over before it is made';
  const signed = { ...link, accountSig: '00', keySig: '00' };
  return parseLinks(JSON.stringify([signed])).ok
    ? undefined
    : 'the names of run and chain are 1..128 printable characters without spaces';
}

/** The link with both signatures; a refusal where it is unsound, or the account signed something else. */
export function completeLink(
  link: Link,
  accountSig: string,
  secretKey: Uint8Array,
  { sign }: Pick<Schnorr, 'sign'>,
): Result<SignedLink> {
  const issue = linkIssue(link);
  if (issue !== undefined) return refuse('bad-link', 'link', issue);
  const keySig = toHex(sign(sha256(utf8(linkStatement(link))), secretKey));
  const made: SignedLink = { ...link, accountSig, keySig };
  return isLink(made)
    ? ok(made)
    : refuse('bad-link', 'accountSig', 'the account did not sign this statement');
}
