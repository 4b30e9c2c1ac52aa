/** Policies: each checks one well-formed event and returns why it is refused, or undefined. */
import {
  type Arrival,
  AUTH_KIND,
  expirationOf,
  findForgery,
  isEphemeral,
  isProtected,
  VANISH_KIND,
} from './event.ts';
import type { Limits } from './limits.ts';
import { type AddressRate, Buckets, Meter, type Rate } from './rates.ts';

/** Code of a refusal, so that a profile can word it differently. */
export type RefusalCode =
  | 'duplicate'
  | 'expired'
  | 'protected'
  | 'too-early'
  | 'too-early-ephemeral'
  | 'too-fast'
  | 'too-late'
  | 'too-long'
  | 'wrong-id'
  | 'wrong-signature';

interface Refusal {
  /** Standard prefix of NIP-01 or NIP-42. */
  readonly prefix:
    | 'invalid'
    | 'blocked'
    | 'error'
    | 'restricted'
    | 'rate-limited'
    | 'pow'
    | 'auth-required';
  readonly message: string;
  readonly code?: RefusalCode;
}

/** Who must authenticate (NIP-42): no one, publishers, or publishers and readers. */
export type AuthMode = 'none' | 'write' | 'all';

/** What a policy can read about the connection of an event. */
export interface PolicySession {
  readonly number: number;
  /** Its IPv4 address or IPv6 /64; several connections may share it. */
  readonly address: string;
  /** Whether it comes from a loopback or private network. */
  readonly isNear: boolean;
  readonly limits: Limits;
  readonly auth: AuthMode;
  /** Keys authenticated on this connection. */
  readonly keys: ReadonlySet<string>;
  nowSeconds(): number;
  nowMs(): number;
  /** Reports whether a URL names this relay. */
  isMine(url: string): boolean;
}

export type Policy = (event: Arrival, session: PolicySession) => Refusal | undefined;

const eventSize: Policy = ({ json }, { limits }) =>
  json.length > limits.maxEventBytes
    ? {
        prefix: 'invalid',
        message: `event too large: ${json.length} bytes, the limit is ${limits.maxEventBytes}`,
      }
    : undefined;

const contentLength: Policy = ({ content }, { limits }) =>
  limits.maxContentLength !== undefined && content.length > limits.maxContentLength
    ? {
        prefix: 'invalid',
        code: 'too-long',
        message: `content too large: ${content.length} characters > ${limits.maxContentLength}`,
      }
    : undefined;

const tagLimits: Policy = ({ tags }, { limits }) => {
  if (tags.length > limits.maxTags) {
    return { prefix: 'invalid', message: `too many tags: ${tags.length} > ${limits.maxTags}` };
  }
  for (const tag of tags) {
    for (const item of tag) {
      const bytes = Buffer.byteLength(item);
      if (bytes > limits.maxTagValueBytes) {
        return {
          prefix: 'invalid',
          message: `tag value too long: ${bytes} bytes > ${limits.maxTagValueBytes}`,
        };
      }
    }
  }
  return undefined;
};

const createdAtWindow: Policy = ({ created_at, kind }, session) => {
  const { limits } = session;
  const ahead = created_at - session.nowSeconds();
  if (limits.createdAtFutureSeconds !== undefined && ahead > limits.createdAtFutureSeconds) {
    const message = `created_at is ${ahead} s in the future`;
    return { prefix: 'invalid', code: 'too-late', message };
  }
  const ephemeral = limits.ephemeralMaxAgeSeconds !== undefined && isEphemeral(kind);
  const limit = ephemeral ? limits.ephemeralMaxAgeSeconds : limits.createdAtMaxAgeSeconds;
  if (limit !== undefined && -ahead > limit) {
    const message = `created_at is ${-ahead} s in the past`;
    return { prefix: 'invalid', code: ephemeral ? 'too-early-ephemeral' : 'too-early', message };
  }
  return undefined;
};

const notExpired: Policy = (event, session) =>
  (expirationOf(event) ?? Number.POSITIVE_INFINITY) <= session.nowSeconds()
    ? { prefix: 'invalid', code: 'expired', message: 'event is expired' }
    : undefined;

const reservedKinds: Policy = ({ kind, tags }, session) => {
  if (kind === AUTH_KIND) return { prefix: 'invalid', message: 'AUTH events are not published' };
  if (kind !== VANISH_KIND) return undefined;
  const named = tags.some(
    ([name, url = '']) => name === 'relay' && (url === 'ALL_RELAYS' || session.isMine(url)),
  );
  return named
    ? undefined
    : { prefix: 'invalid', message: 'request to vanish does not name this relay' };
};

const allowedKinds: Policy = ({ kind }, { limits }) =>
  limits.kinds && !limits.kinds.includes(kind)
    ? { prefix: 'blocked', message: `kind ${kind} is not accepted here` }
    : undefined;

const authenticated: Policy = (event, { auth, keys }) => {
  if (auth !== 'none' && keys.size === 0) {
    return { prefix: 'auth-required', message: 'publishing here needs AUTH' };
  }
  if (!isProtected(event) || keys.has(event.pubkey)) return undefined;
  const message = 'this event may only be published by its author';
  return { prefix: keys.size === 0 ? 'auth-required' : 'restricted', code: 'protected', message };
};

/** Returns the leading zero bits of a hex id. */
function zeroBits(id: string): number {
  const zeros = /^0*/.exec(id)![0].length;
  const digit = id[zeros];
  return zeros * 4 + (digit === undefined ? 0 : Math.clz32(Number.parseInt(digit, 16)) - 28);
}

export const proofOfWork = (
  { id, tags }: Pick<Arrival, 'id' | 'tags'>,
  { limits }: { readonly limits: { readonly minPow: number } },
): ReturnType<Policy> => {
  const { minPow } = limits;
  if (minPow === 0) return undefined;
  const bits = zeroBits(id);
  if (bits < minPow) return { prefix: 'pow', message: `difficulty ${bits} is less than ${minPow}` };
  const target = tags.find((tag) => tag[0] === 'nonce')?.[2];
  return Number(target) >= minPow
    ? undefined
    : { prefix: 'pow', message: `the nonce tag does not commit to ${minPow} bits` };
};

export const verifiedSignature: Policy = (event) => {
  const code = findForgery(event);
  if (code === undefined) return undefined;
  const message = code === 'wrong-id' ? 'id does not match the event' : 'signature does not verify';
  return { prefix: 'invalid', code, message };
};

function createEventRates(rates: readonly Rate[]): Policy {
  const meter = new Meter(rates);
  return ({ pubkey, kind }, session) =>
    meter.takes(pubkey, session.nowSeconds() * 1000, kind)
      ? undefined
      : { prefix: 'rate-limited', code: 'too-fast', message: 'slow down' };
}

/**
 * Creates the rate limit of addresses. With `isPublic`, only public addresses are counted: a near one may have many
 * users.
 */
export function createAddressRate(rate: AddressRate, isPublic = false): Policy {
  const buckets = new Buckets(rate);
  return (_, session) =>
    (isPublic && session.isNear) || buckets.takes(session.address, session.nowMs())
      ? undefined
      : { prefix: 'rate-limited', code: 'too-fast', message: 'slow down' };
}

/** Creates the standard policies of one relay; they include its rate counters. */
export const createStandardPolicies = ({
  eventRates,
  addressRate,
  publicAddress,
}: Limits): readonly Policy[] => [
  eventSize,
  contentLength,
  tagLimits,
  createdAtWindow,
  notExpired,
  reservedKinds,
  allowedKinds,
  authenticated,
  proofOfWork,
  verifiedSignature,
  createEventRates(eventRates),
  ...(addressRate === undefined ? [] : [createAddressRate(addressRate)]),
  ...(publicAddress === undefined ? [] : [createAddressRate(publicAddress.events, true)]),
];
