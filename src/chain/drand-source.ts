/**
 * Rounds of drand over HTTP (`GET <endpoint>/public/<round>`). Signatures are checked with the key in the run spec,
 * so no endpoint is trusted; the first valid answer counts.
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
  /** With the chain in their paths where they serve several. */
  readonly urls: readonly string[];
  readonly get: Get;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

/** A round is a few hundred bytes of JSON. */
const MAX_BYTES = 64 * 1024;

/** The chain of these rules. Throws `beacon/key` for a key that is none. */
export function createDrandSource(
  rules: Extract<BeaconRules, { kind: 'drand' }>,
  access: DrandAccess,
): BeaconSource {
  const { urls, get, clock } = access;
  const { publicKey, genesis, periodSeconds, lagSeconds } = rules;
  if (!isDrandKey(publicKey)) {
    throw new ConfigError('beacon/key', `beacon.publicKey ${publicKey.slice(0, 16)}… is no key`, {
      hint: 'it must be a point of BLS12-381 on G2: 192 hex digits',
    });
  }
  return {
    name: `drand at ${urls.map(nameOf).join(', ')}`,
    async after(time, signal) {
      const round = drandRoundAt(rules, time + lagSeconds);
      const dueMs = 1000 * (genesis + (round - 1) * periodSeconds);
      if (dueMs > clock.now()) await clock.sleep(dueMs - clock.now(), signal);
      const problems: string[] = [];
      for (const url of urls) {
        const said = await ask(url, round);
        if (typeof said === 'string') problems.push(said);
        else return said;
      }
      throw new ChainError('chain/unproved', `drand round ${round}: ${problems.join('; ')}`, {
        hint: 'name other endpoints with --drand URL',
      });

      /** A signature that holds, or why there is none. */
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
  const said = jsonIn(text) as { readonly signature?: unknown } | null | undefined;
  return typeof said?.signature === 'string' ? said.signature : undefined;
}
