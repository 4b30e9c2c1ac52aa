/** Creates the beacon of a run from the endpoints in the flags, checked against the spec. */
import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import { createDrandSource } from '../../chain/drand-source.ts';
import { createGet } from '../../chain/endpoints.ts';
import { createBlockBeacon } from '../../chain/evm/blocks.ts';
import { tablesOf } from '../../node/join/join-run.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { accessOf, type EndpointFlags } from './endpoints.ts';
import { readStakeFile } from './stake-refresh.ts';

/**
 * Returns the beacon of a run; undefined if it has none, or no endpoint is named. Throws if the chain cannot be used.
 */
export function beaconSource({ beacon }: RunSpec, flags: EndpointFlags): BeaconSource | undefined {
  const { drand, rpc, rpcTimeout } = flags;
  if (beacon.kind === 'drand' && drand.length > 0) {
    const bad = drand.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
    if (bad !== undefined) {
      throw new ConfigError('flag/drand', `${bad} is not an http:// or https:// address`, {
        hint: 'use a URL such as --drand https://drand.example.org',
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

/** Like beaconSource, but throws if the run has a beacon and no endpoint is named. */
export function neededBeacon(spec: RunSpec, flags: EndpointFlags): BeaconSource | undefined {
  const source = beaconSource(spec, flags);
  if (source !== undefined || spec.beacon.kind === 'none') return source;
  const [name, what] =
    spec.beacon.kind === 'drand'
      ? ['drand', 'rounds of drand']
      : ['rpc', `blocks of ${spec.beacon.chain}`];
  throw new ConfigError(
    `flag/${name}`,
    `the committee draws of this run use ${what}, and no endpoint is named`,
    { hint: `name endpoints with --${name} URL, preferably several` },
  );
}

/** Returns what computes where a run stands: its beacon, and the stake tables of `--stake`. */
export const standPorts = async (
  spec: RunSpec,
  flags: EndpointFlags & { readonly stake?: string },
) => ({
  beacon: neededBeacon(spec, flags),
  tables: tablesOf(await readStakeFile(flags.stake)),
  crypto: nativeCrypto,
});
