/** Where a run's beacon comes from on this machine: endpoints from flags, held against what the spec says. */
import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { createDrandSource } from '../../chain/drand-source.ts';
import { createGet } from '../../chain/endpoints.ts';
import { createBlockBeacon } from '../../chain/evm/blocks.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { accessOf, type EndpointFlags } from './endpoints.ts';

/** The beacon of a run; undefined if it has none, or no endpoint is named. Throws if the chain cannot be followed. */
export function beaconSource({ beacon }: RunSpec, flags: EndpointFlags): BeaconSource | undefined {
  const { drand, rpc, rpcTimeout } = flags;
  if (beacon.kind === 'drand' && drand.length > 0) {
    const bad = drand.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
    if (bad !== undefined) {
      throw new ConfigError('flag/drand', `${bad} is no http:// or https:// address`, {
        hint: 'say it as --drand https://drand.example.org',
      });
    }
    const [clock, get] = [systemClock, createGet(fetch)];
    return createDrandSource(beacon, { urls: drand, get, clock, timeoutMs: 1000 * rpcTimeout });
  }
  if (beacon.kind === 'block' && rpc.length > 0) {
    const access = { ...accessOf({ ...flags, wait: 0 }), chain: beacon.chain };
    return createBlockBeacon(access, beacon.lagSeconds);
  }
  return undefined;
}

/** The same where a run cannot go on without. */
export function neededBeacon(spec: RunSpec, flags: EndpointFlags): BeaconSource | undefined {
  const source = beaconSource(spec, flags);
  if (source !== undefined || spec.beacon.kind === 'none') return source;
  const [name, what] =
    spec.beacon.kind === 'drand'
      ? ['drand', 'rounds of drand']
      : ['rpc', `blocks of ${spec.beacon.chain}`];
  throw new ConfigError(
    `flag/${name}`,
    `the draws of this run mix in ${what}, and no endpoint is named`,
    { hint: `say where to get them: --${name} URL, best several` },
  );
}
