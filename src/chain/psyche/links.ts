/**
 * Links from accounts of other chains to Nostr keys: a plain-text statement that both keys sign. The latest valid link
 * of an account counts; two different links of the same second cancel each other.
 */

import { ed25519 } from '@noble/curves/ed25519.js';
import { schnorr } from '@noble/curves/secp256k1.js';
import { base58 } from '@scure/base';
import { concatBytes, fromHex, toHex, utf8 } from '../../base/bytes.ts';
import { jsonIn, parseJson } from '../../base/canonical-json.ts';
import { ok, type Result, refuse } from '../../base/errors.ts';
import { sha256, sha256Hex } from '../../base/hash.ts';
import { isCount, isHash, isText, shape } from '../../base/shape.ts';
import type { Schnorr } from '../../network/event-crypto.ts';
import type { WorkerId } from '../../run/ids.ts';

export interface Link {
  /** CAIP-2 chain id. */
  readonly chain: string;
  /** Base58 of the account's ed25519 key. */
  readonly account: string;
  readonly key: WorkerId;
  readonly run: string;
  /** Unix seconds: valid from `made`, inclusive, to `expires`, exclusive. */
  readonly made: number;
  readonly expires: number;
}

export interface SignedLink extends Link {
  /** Ed25519 signature over the statement, hex. */
  readonly accountSig: string;
  /** BIP-340 signature over SHA-256 of the statement, hex. */
  readonly keySig: string;
}

const MOST_LINKS = 4096;

/** Returns the UTF-8 text that both keys sign; a wallet shows it unchanged. */
export const linkStatement = ({ chain, account, key, run, made, expires }: Link): string =>
  `nostrain link 1\nchain: ${chain}\naccount: ${account}\nkey: ${key}\nrun: ` +
  `${run}\nmade: ${made}\nexpires: ${expires}`;

/** Maximum base58 symbols per byte: log 256 / log 58. */
const PER_BYTE = 1.366;

/**
 * Decodes base58 of exactly `length` bytes (addresses 32, signatures 64), otherwise returns undefined; longer texts are
 * not decoded.
 */
export function fromBase58(text: string, length = 32): Uint8Array | undefined {
  if (text.length < length || text.length > Math.ceil(PER_BYTE * length)) return undefined;
  try {
    const bytes = base58.decode(text);
    return bytes.length === length ? bytes : undefined;
  } catch {
    return undefined;
  }
}

export function isLink(link: SignedLink): boolean {
  const account = fromBase58(link.account);
  const [accountSig, keySig] = [fromHex(link.accountSig), fromHex(link.keySig)];
  if (account?.length !== 32 || accountSig?.length !== 64 || keySig?.length !== 64) return false;
  const text = utf8(linkStatement(link));
  try {
    return (
      ed25519.verify(accountSig, text, account, { zip215: false }) &&
      schnorr.verify(keySig, sha256(text), fromHex(link.key)!)
    );
  } catch {
    return false;
  }
}

export interface LinkQuestion {
  readonly chain: string;
  readonly run: string;
  /** Unix seconds at which a link must be valid. */
  readonly cutoff: number;
}

/** Returns the Nostr key by account (hex), for accounts that have exactly one. */
export function linkedKeys(
  links: readonly SignedLink[],
  { chain, run, cutoff }: LinkQuestion,
): ReadonlyMap<string, WorkerId> {
  const best = new Map<string, { readonly made: number; readonly key: WorkerId | undefined }>();
  for (const link of links) {
    if (link.chain !== chain || link.run !== run) continue;
    if (link.made > cutoff || link.expires <= cutoff || !isLink(link)) continue;
    const account = toHex(fromBase58(link.account)!);
    const { made, key } = link;
    const known = best.get(account);
    if (known === undefined || made > known.made) best.set(account, { made, key });
    else if (made === known.made && key !== known.key) best.set(account, { made, key: undefined });
  }
  return new Map([...best].flatMap(([account, { key }]) => (key ? [[account, key]] : [])));
}

export const linksHash = (linked: ReadonlyMap<string, WorkerId>): string =>
  sha256Hex(
    concatBytes(
      utf8('nostrain/links/1'),
      ...[...linked].sort().map(([account, key]) => fromHex(account + key)!),
    ),
  );

/** Parses a JSON list of links. Signatures are checked later, by linkedKeys. */
export function parseLinks(text: string): Result<readonly SignedLink[]> {
  const parsed = parseJson(text);
  if (!parsed.ok || !Array.isArray(parsed.value) || parsed.value.length > MOST_LINKS) {
    return refuse('bad-links', 'links', `not a JSON list of at most ${MOST_LINKS}`);
  }
  const links: SignedLink[] = [];
  for (const [i, item] of parsed.value.entries()) {
    const link = readLink(item);
    if (link === undefined) return refuse('bad-links', `links.${i}`, 'not a link');
    links.push(link);
  }
  return ok(links);
}

const isWord = (value: unknown): value is string =>
  isText(value) && /^[\x21-\x7e]{1,128}$/.test(value);

const isLinkShape = shape({
  chain: isWord,
  account: isWord,
  key: isHash,
  run: isWord,
  made: isCount,
  expires: isCount,
  accountSig: isWord,
  keySig: isWord,
});

function readLink(item: unknown): SignedLink | undefined {
  if (!isLinkShape(item)) return undefined;
  const { chain, account, key, run, made, expires, accountSig, keySig } = item;
  return { chain, account, key, run, made, expires, accountSig, keySig };
}

/** An ed25519 key as `solana-keygen` stores it: 64 numbers, the secret key and then the public key. */
export interface AccountKey {
  /** 32 bytes. */
  readonly secret: Uint8Array;
  /** Base58 of the public key. */
  readonly account: string;
}

export function parseAccountKey(text: string): Result<AccountKey> {
  const broken = (message: string) => refuse('bad-key', 'account key', message);
  const numbers = jsonIn(text);
  if (!Array.isArray(numbers) || numbers.length !== 64) return broken('not a list of 64 numbers');
  const isByte = (value: unknown) =>
    Number.isInteger(value) && Number(value) >= 0 && Number(value) < 256;
  if (!numbers.every(isByte)) return broken('not a list of 64 numbers from 0 to 255');
  const bytes = Uint8Array.from(numbers as number[]);
  const [secret, publicKey] = [bytes.slice(0, 32), bytes.slice(32)];
  return toHex(ed25519.getPublicKey(secret)) === toHex(publicKey)
    ? ok({ secret, account: base58.encode(publicKey) })
    : broken('the last 32 numbers are not the public key of the first 32');
}

/** Returns the account's signature of the statement, hex. */
export const signAsAccount = (link: Link, { secret }: AccountKey): string =>
  toHex(ed25519.sign(utf8(linkStatement(link)), secret));

/** Returns a 64-byte signature from hex or base58; undefined for anything else. */
export function readAccountSig(text: string): string | undefined {
  const bytes = fromHex(text.toLowerCase()) ?? fromBase58(text, 64);
  return bytes?.length === 64 ? toHex(bytes) : undefined;
}

/** Returns why a link is unusable, apart from its signature; undefined if it is sound. */
export function linkIssue(link: Link): string | undefined {
  if (fromBase58(link.account) === undefined) return `${link.account} is not a Solana account`;
  if (link.expires <= link.made) return 'it expires before it is made';
  const signed = { ...link, accountSig: '00', keySig: '00' };
  return parseLinks(JSON.stringify([signed])).ok
    ? undefined
    : 'the names of run and chain are 1..128 printable characters without spaces';
}

/** Returns the link with both signatures. Refuses an unusable link, or one whose account signed another text. */
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
