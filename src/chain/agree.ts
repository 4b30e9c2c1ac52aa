/** Asks several RPC endpoints the same question: an answer counts when at least k of them give it and no other has as many. */
import { ChainError, NostrainError } from '../base/errors.ts';
import type { Endpoint } from './json-rpc.ts';

export interface Endpoints {
  readonly all: readonly Endpoint[];
  /** How many must agree. */
  readonly need: number;
}

/** Throws `chain/endpoints` where fewer endpoints are given than must agree. */
export function assertEnough({ all, need }: Endpoints): void {
  if (Number.isInteger(need) && need >= 1 && all.length >= need) return;
  throw new ChainError('chain/endpoints', `${need} endpoints must agree, ${all.length} are given`, {
    hint: 'name as many with --rpc as --agree says',
  });
}

/** One endpoint's answer, or what went wrong. */
export type Said<T> =
  | { readonly endpoint: Endpoint; readonly value: T }
  | { readonly endpoint: Endpoint; readonly problem: string; readonly code: string };

/** Everybody's answer; failures of others are values, ours are thrown. */
export async function askAll<T>(
  { all }: Endpoints,
  ask: (endpoint: Endpoint) => Promise<T>,
): Promise<readonly Said<T>[]> {
  return Promise.all(
    all.map(async (endpoint) => {
      try {
        return { endpoint, value: await ask(endpoint) };
      } catch (error) {
        if (!(error instanceof NostrainError)) throw error;
        return { endpoint, problem: error.message, code: error.code };
      }
    }),
  );
}

/** The answer of at least k endpoints. Throws `chain/disagree` with everybody's words when there is not exactly one. */
export async function agree<T>(
  endpoints: Endpoints,
  what: string,
  ask: (endpoint: Endpoint) => Promise<T>,
  spell: (value: T) => string,
  hint = 'ask other endpoints with --rpc; one of these is wrong, behind or cannot answer',
): Promise<T> {
  const said = await askAll(endpoints, ask);
  const groups = new Map<string, T[]>();
  for (const each of said) {
    if ('problem' in each) continue;
    const key = spell(each.value);
    groups.set(key, [...(groups.get(key) ?? []), each.value]);
  }
  const enough = [...groups.values()].filter((values) => values.length >= endpoints.need);
  if (enough.length === 1) return enough[0]![0]!;
  const words = said.map((each) =>
    'problem' in each ? each.problem : `${each.endpoint.name}: ${spell(each.value)}`,
  );
  if (said.every((each) => 'problem' in each && each.code === 'chain/unreachable')) {
    const who =
      said.length === 1 ? 'The chain endpoint does not answer' : 'No chain endpoint answers';
    throw new ChainError('chain/too-few', `${who}: ${words.join('; ')}`, { hint });
  }
  const code = groups.size > 1 ? 'chain/disagree' : 'chain/too-few';
  throw new ChainError(
    code,
    `no one answer from ${endpoints.need} endpoints on ${what}: ${words.join('; ')}`,
    { hint },
  );
}

/** The first answer that proves itself. Throws with everybody's words when none does. */
export async function firstProved<T>(
  { all }: Endpoints,
  what: string,
  ask: (endpoint: Endpoint) => Promise<T>,
  hint: string,
): Promise<T> {
  const problems: string[] = [];
  for (const endpoint of all) {
    try {
      return await ask(endpoint);
    } catch (error) {
      if (!(error instanceof NostrainError)) throw error;
      problems.push(error.message);
    }
  }
  throw new ChainError('chain/unproved', `no endpoint proves ${what}: ${problems.join('; ')}`, {
    hint,
  });
}
