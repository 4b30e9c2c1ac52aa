/**
 * Fetches drand rounds over HTTP (`GET <endpoint>/public/<round>`). Signatures are verified with the key in the run
 * spec, so endpoints are not trusted; the first valid answer is used.
 */

import type { Clock } from '../base/async.ts';
import { jsonIn } from '../base/canonical-json.ts';
import { ChainError, ConfigError } from '../base/errors.ts';
import {
  type BeaconRules,
  beaconValue,
  drandRoundAt,
  isDrandKey,
} from '../consensus/committee/beacon.ts';
import type { BeaconSource } from '../run/committee.ts';
import { type Get, inTime, nameOf } from './endpoints.ts';

export interface DrandAccess {
  /** Base URLs, including the chain hash if an endpoint serves several chains. */
  readonly urls: readonly string[];
  readonly get: Get;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** Maximum response size; a round is a few hundred bytes of JSON. */
const MAX_BYTES = 64 * 1024;

/** Returns the drand beacon of a run. Throws `beacon/key` if the key is invalid. */
export function createDrandSource(
  rules: Extract<BeaconRules, { kind: 'drand' }>,
  access: DrandAccess,
): BeaconSource {
  const { urls, get, clock } = access;
  const { publicKey, genesis, periodSeconds, lagSeconds } = rules;
  if (!isDrandKey(publicKey)) {
    throw new ConfigError(
      'beacon/key',
      `beacon.publicKey ${publicKey.slice(0, 16)}… is not a valid key`,
      {
        hint: 'it must be a point of BLS12-381 on G2: 192 hex digits',
      },
    );
  }
  return {
    name: `drand at ${urls.map(nameOf).join(', ')}`,
    async after(time, signal) {
      const round = drandRoundAt(rules, time + lagSeconds);
      const dueMs = 1000 * (genesis + (round - 1) * periodSeconds);
      if (dueMs > clock.now()) await clock.sleep(dueMs - clock.now(), signal);
      const problems: string[] = [];
      for (const url of urls) {
        const answer = await ask(url, round);
        if (typeof answer === 'string') problems.push(answer);
        else return answer;
      }
      throw new ChainError('chain/unproved', `drand round ${round}: ${problems.join('; ')}`, {
        hint: 'name other endpoints with --drand URL',
      });

      /** Returns a valid signature, or the reason why this endpoint gave none. */
      async function ask(url: string, number: number) {
        const from = `${url.replace(/\/+$/, '')}/public/${number}`;
        try {
          const text = await inTime(access, signal, (stop) =>
            get(from, { signal: stop, maxBytes: MAX_BYTES }),
          );
          const proof = { signature: signatureIn(text) ?? '' };
          const value = beaconValue(rules, time, proof);
          return value.ok ? proof : `${nameOf(url)}: ${value.issue.message}`;
        } catch (error) {
          signal.throwIfAborted();
          if (!(error instanceof ChainError)) throw error;
          return `${nameOf(url)}: ${error.message}`;
        }
      }
    },
  };
}

function signatureIn(text: string): string | undefined {
  const body = jsonIn(text) as { readonly signature?: unknown } | null | undefined;
  return typeof body?.signature === 'string' ? body.signature : undefined;
}
