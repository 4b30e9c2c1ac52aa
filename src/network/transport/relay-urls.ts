/** Relay addresses: parsing, removing secrets, judging those that strangers name, and choosing the relays of a key. */
import { utf8 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { sha256Hex } from '../../base/hash.ts';

const HINT = 'give one or more ws:// or wss:// addresses, for example ws://127.0.0.1:7777';

/** Returns the addresses in order, without repeats. Throws a ConfigError that names a wrong one. */
export function parseRelayUrls(urls: readonly string[]): readonly string[] {
  const byTarget = new Map<string, string>();
  for (const url of urls.map((text) => text.trim()).filter((text) => text !== '')) {
    const target = targetOf(url);
    if (!byTarget.has(target)) byTarget.set(target, url);
  }
  if (byTarget.size === 0) {
    throw new ConfigError('relay/no-url', 'no relay was given', { hint: HINT });
  }
  return [...byTarget.values()];
}

function targetOf(url: string): string {
  if (!isRelayUrl(url)) {
    throw new ConfigError(
      'relay/bad-url',
      `not a relay address: ${JSON.stringify(withoutSecrets(url))}`,
      {
        hint: HINT,
        data: { url: withoutSecrets(url) },
      },
    );
  }
  return new URL(url).href;
}

/** Reports whether this is a ws:// or wss:// address. */
export const isRelayUrl = (url: string): boolean =>
  /^wss?:/i.test(url) && URL.canParse(url) && !url.includes('#');

/** Returns the address without user, password, query and fragment, which may be secret. */
export function withoutSecrets(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url?.host) {
    return text.replace(/^((?:ws|http)s?:)?.*@/is, '$1//').replace(/[?#].*$/s, '');
  }
  const { protocol, host, pathname, username, password } = url;
  const isBare = username === '' && password === '' && !/[?#@]/.test(text);
  return isBare ? text : `${protocol}//${host}${pathname}`;
}

/** Returns addresses by display name: without secrets, each name unique. */
export function namesOf(urls: readonly string[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const url of urls) {
    const name = withoutSecrets(url);
    names.set(names.has(name) ? `${name}#${names.size + 1}` : name, url);
  }
  return names;
}

const LOCAL_NAME = /^localhost$|\.(?:localhost|local)$/;

const isIp = (host: string): boolean => host.startsWith('[') || /^[\d.]+$/.test(host);

/** Reports whether the address is on this machine or a private network, as opposed to a public relay. */
export function isPrivateRelay(url: string): boolean {
  const { hostname } = new URL(url);
  return isIp(hostname) ? !isPublicIp(hostname) : LOCAL_NAME.test(hostname);
}

/** Reports whether the address is on this machine, where strangers do not reach it. */
export function isLoopbackRelay(url: string): boolean {
  const { hostname } = new URL(url);
  return /^127\.[\d.]+$|^\[::1\]$|^(?:.+\.)?localhost$/.test(hostname);
}

/** IPv4 ranges that are not public (IANA special-purpose registry): address and prefix length. */
const SPECIAL_IPV4: readonly (readonly [address: string, bits: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
];
/** Names that public DNS does not resolve, or that mean this machine or its network. */
const LOCAL_SUFFIX = new RegExp(
  String.raw`\.(?:local|localhost|localdomain|internal|intranet|private|lan|home|corp|home\.arpa` +
    '|onion|test|invalid)$',
);
/** Ports above 1023 of other services: databases, caches, remote control, mail and chat. */
const OTHER_SERVICES: ReadonlySet<number> = new Set([
  1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060,
  5061, 5432, 5672, 5900, 5984, 5985, 6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6697,
  8086, 8500, 8545, 9042, 9092, 9200, 9300, 10_080, 10_250, 11_211, 27_017,
]);
const LONGEST_URL = 256;
const PATH = /^\/[\w~/-]{0,63}$/;

/** Reports whether an IP address, as Node and URLs write it (with or without brackets), is public. */
export function isPublicIp(address: string): boolean {
  const ip = address.toLowerCase().replace(/^\[|\]$/g, '');
  if (!ip.includes(':')) return isPublicIpv4(ip);
  // public addresses are in 2000::/3; zoned, mapped and translated IPv4 addresses are not
  const [first = '', second = ''] = ip.split(':');
  if (!/^[23][0-9a-f]{3}$/.test(first)) return false;
  const next = Number.parseInt(second || '0', 16);
  if (first === '2001') return next >= 0x200 && next !== 0xdb8;
  return first !== '2002' && !(first === '3fff' && next < 0x1000);
}

const toNumber = (ip: string): number =>
  ip.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);

function isPublicIpv4(ip: string): boolean {
  if (!/^(?:\d{1,3}\.){3}\d{1,3}$/.test(ip)) return false;
  const value = toNumber(ip);
  return !SPECIAL_IPV4.some(([start, bits]) => {
    const size = 2 ** (32 - bits);
    return Math.floor(value / size) === Math.floor(toNumber(start) / size);
  });
}

/** Returns why not to connect to a relay that a stranger names; undefined if it is acceptable. */
export function hintProblem(url: string): string | undefined {
  if (url.length > LONGEST_URL || !isRelayUrl(url)) return 'not the address of a relay';
  const { hostname, port, pathname, search, username, password } = new URL(url);
  const host = hostname.replace(/\.$/, '');
  if (isIp(host) && !isPublicIp(host)) return 'a private address';
  if (!isIp(host) && (!host.includes('.') || LOCAL_SUFFIX.test(host)))
    return 'a private network name';
  if (username !== '' || password !== '' || search !== '')
    return 'an address with a user or a query';
  const number = Number(port || 443);
  const isUsual = number === 80 || number === 443 || number >= 1024;
  if (!isUsual || OTHER_SERVICES.has(number)) return `port ${number}, which other services use`;
  return PATH.test(pathname) ? undefined : 'an unusual path';
}

/**
 * Returns the relays that a key reads from, by rendezvous hashing: a change of relays moves only their share of keys.
 */
export function relaysOfKey(
  relays: readonly string[],
  publicKey: string,
  redundancy: number,
): readonly string[] {
  if (redundancy === 0 || redundancy >= relays.length) return relays;
  const scored = relays.map((relay) => ({
    relay,
    score: sha256Hex(utf8(`nostrain/relay/1 ${publicKey} ${relay}`)),
  }));
  const best = scored.sort((a, b) => (a.score < b.score ? 1 : -1)).slice(0, redundancy);
  const selected = new Set(best.map(({ relay }) => relay));
  return relays.filter((relay) => selected.has(relay));
}
