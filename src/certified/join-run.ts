/** A worker of a run with a spec, as a member of its certified rounds: its votes on disk, its reveal chain, the stakes of the run. */
import { systemClock } from '../base/clock.ts';
import { valueAfter } from '../cli/beacon.ts';
import { createRevealChain, revealOf, tipOf } from '../consensus/committee/reveal.ts';
import type { Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { createControl } from '../network/wire/control.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { nativeSha256 } from '../node/native-sha256.ts';
import type { BeaconSource } from '../run/beacon-source.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { stakeOf } from '../run/stake-snapshot.ts';
import type { Ports } from '../worker/ports.ts';
import { genesis, type WorkerState } from '../worker/state.ts';
import { createHistory } from './branch-history.ts';
import { fromCheckpoint } from './catch-up.ts';
import type { Noun } from './evidence.ts';
import { genesisOf } from './history.ts';
import type { Journal } from './journal.ts';
import { Member, type MemberOptions } from './member.ts';
import { toNoun } from './nouns.ts';
import { createRefreshPort, type StakeOptions } from './stake-tables.ts';
import { standingOf } from './standing.ts';
import { startOf } from './start.ts';

export interface CertifiedOptions extends StakeOptions {
  readonly spec: RunSpec;
  /** There where the run has a beacon. */
  readonly beacon?: BeaconSource | undefined;
  /** The outcome whose branch somebody chose, where the run has forked. */
  readonly branch?: Digest | undefined;
}

interface Parts {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly secretKey: Uint8Array;
  readonly journal: Journal;
  readonly ports: MemberOptions['ports'] & Pick<Ports, 'trainer'>;
  readonly signal: AbortSignal;
}

export function createMember(options: CertifiedOptions, parts: Parts): Member {
  const { spec, beacon, branch } = options;
  const { relays, signer, secretKey, journal, ports, signal } = parts;
  const run = runIdOf(spec);
  const chain = createRevealChain(secretKey, run, spec.training.rounds);
  const control = createControl<Noun>({
    ...{ run, relays, signer, clock: systemClock, sha256: nativeSha256, signal },
    read: (event, bodyOf) => toNoun(event, run, nativeCrypto, bodyOf),
  });
  const history = createHistory(spec, {
    ...{ relays, signal, beacon, layout: ports.trainer.layout },
    tables: () => givenTables(spec, options.stakeFile, { relays, signal }),
    genesis: () => genesisOf(spec, startOf(spec), nativeSha256),
  });
  const refresh = createRefreshPort(spec, options, relays.relays, signal);
  return new Member({
    ...{ spec, run, control, journal, ports, signal },
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    stakes: async (id) => stakeOf(await refresh.find(id)),
    ...{ refresh, history, through: branch },
    beacon: async (time) => {
      if (beacon === undefined) throw new TypeError('a run with a beacon, and no source of it');
      return valueAfter(spec, beacon, time, signal);
    },
  });
}

/** The state a worker starts from: after the newest certified checkpoint, else the one of round 0, the same for everybody. */
export async function firstCertified(
  { spec, stakeFile, beacon, branch }: CertifiedOptions,
  lossBefore: number,
  parts: {
    readonly relays: RelaySet;
    readonly signal: AbortSignal;
    onNotice(message: string): void;
  },
): Promise<WorkerState> {
  const params = startOf(spec);
  const start = genesisOf(spec, params, nativeSha256);
  const first = { ...genesis(params, lossBefore), standing: standingOf(start, []) };
  const { layout } = params;
  const tables = await givenTables(spec, stakeFile, parts);
  const later = await fromCheckpoint(spec, {
    ...parts,
    layout,
    genesis: start,
    beacon,
    tables,
    through: branch,
  });
  if (later === undefined) return first;
  const { state, votes } = later;
  const { round, params: at, momentum } = state;
  return { ...first, round, params: at, momentum, standing: standingOf(state, votes) };
}

/** The table of a file, by its id. */
export async function givenTables(
  spec: RunSpec,
  stakeFile: string | undefined,
  { relays, signal }: { readonly relays: RelaySet; readonly signal: AbortSignal },
): Promise<ReadonlyMap<Digest, ReadonlyMap<WorkerId, bigint>>> {
  const { stake } = spec;
  if (stake.source === 'none' || stakeFile === undefined) return new Map();
  const { find } = createRefreshPort(spec, { stakeFile }, relays.relays, signal);
  return new Map([[stake.snapshot, stakeOf(await find(stake.snapshot))]]);
}
