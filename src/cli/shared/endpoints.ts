/** Flags for the endpoints of chains, and the endpoints made from them. */
import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { createEndpoint, createPost, type Endpoints } from '../../chain/endpoints.ts';
import type { ChainAccess } from '../../chain/evm/blocks.ts';
import { withoutSecrets } from '../../network/transport/relay-urls.ts';
import { type FlagValues, severalOr, whole, withDefault } from '../../terminal/flag-table.ts';

const rpcFlags = {
  rpc: severalOr('none', '<url>', 'JSON-RPC endpoint of the chain, repeatable'),
  agree: whole('<k>', 'number of endpoints that must agree (default: more than half)', 1, 100),
  rpcTimeout: withDefault(whole('<s>', 'seconds to wait for an answer', 1, 600), 30),
};

/** Flags to reach the chain of the stakes. */
export const accessFlags = {
  ...rpcFlags,
  wait: withDefault(whole('<s>', 'seconds to wait for the block to become final', 0), 0),
};

export type AccessFlags = FlagValues<typeof accessFlags>;

/** Flags for all chains that a run reads. */
export const endpointFlags = {
  ...rpcFlags,
  drand: severalOr('none', '<url>', 'endpoint of the drand chain that the spec names, repeatable'),
};

export type EndpointFlags = FlagValues<typeof endpointFlags>;

/** Returns an endpoint of a chain. Throws `flag/rpc` if the URL is not a web address. */
export function endpointAt(url: string, seconds: number, example = 'https://rpc.example.org') {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    const message = `${withoutSecrets(url)} is not an http:// or https:// address`;
    throw new ConfigError('flag/rpc', message, { hint: `use a URL such as --rpc ${example}` });
  }
  const timeoutMs = 1000 * seconds;
  return createEndpoint(url, { post: createPost(fetch), clock: systemClock, timeoutMs });
}

/** Returns the endpoints of the flags. Throws `flag/rpc` if there are none. */
function endpointsOf({ rpc, agree, rpcTimeout }: AccessFlags): Endpoints {
  if (rpc.length === 0) {
    throw new ConfigError('flag/rpc', 'no endpoint of the chain is given', {
      hint: 'add --rpc URL, preferably several',
    });
  }
  const all = [...new Set(rpc)].map((url) => endpointAt(url, rpcTimeout));
  return { all, need: agree ?? Math.floor(all.length / 2) + 1 };
}

const POLL_MS = 2000;

/** Returns how a stake source reaches its chain. */
export const accessOf = (flags: AccessFlags): Omit<ChainAccess, 'chain'> => ({
  endpoints: endpointsOf(flags),
  clock: systemClock,
  waitMs: 1000 * flags.wait,
  pollMs: POLL_MS,
});
