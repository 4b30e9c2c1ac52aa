/** A worker of a certified run: what takes part in its rounds, and the state it starts from. */
import { sha256 as pureSha256 } from '../base/hash.ts';
import { createRevealChain, revealOf, tipOf } from '../consensus/committee/reveal.ts';
import type { Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { createControl } from '../network/wire/control.ts';
import type { BeaconSource } from '../run/beacon-source.ts';
import type { Digest } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { stakeOf } from '../run/stake-snapshot.ts';
import type { Ports } from '../worker/ports.ts';
import { genesis } from '../worker/state.ts';
import { valueAfter } from './beacons.ts';
import { createHistory } from './branch-history.ts';
import { fromCheckpoint } from './catch-up.ts';
import { chainHeadOf } from './chain-head.ts';
import type { CertifiedState } from './events.ts';
import type { Noun } from './evidence.ts';
import type { GatherOptions } from './gather.ts';
import type { Hashing } from './hashing.ts';
import { genesisOf } from './history.ts';
import type { Journal } from './journal.ts';
import { Member, type MemberOptions } from './member.ts';
import { toNoun } from './nouns.ts';
import type { RefreshPort } from './refresh.ts';
import { startOf } from './start.ts';

export interface CertifiedOptions extends Hashing {
  readonly spec: RunSpec;
  /** How stake tables are had; a run without stakes asks for none. */
  readonly stakes: RefreshPort;
  /** Tables that somebody handed over, by their ids; relays are asked for the others. */
  readonly tables?: GatherOptions['tables'] | undefined;
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
  const { spec, beacon, branch, stakes, sha256 = pureSha256, crypto } = options;
  const { relays, signer, secretKey, journal, ports, signal } = parts;
  const run = runIdOf(spec);
  const chain = createRevealChain(secretKey, run, spec.training.rounds);
  const control = createControl<Noun>({
    ...{ run, relays, signer, clock: ports.clock, sha256, signal },
    read: (event, bodyOf) => toNoun(event, run, crypto, bodyOf),
  });
  const history = createHistory(spec, {
    ...{ relays, signal, beacon, layout: ports.trainer.layout, tables: options.tables },
    ...{ clock: ports.clock, sha256, crypto },
    genesis: () => genesisOf(spec, startOf(spec), sha256),
  });
  return new Member({
    ...{ spec, run, control, journal, ports, signal },
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    stakes: async (id) => stakeOf(await stakes.find(id)),
    ...{ refresh: stakes, history, through: branch },
    beacon: async (time) => {
      if (beacon === undefined) throw new TypeError('a run with a beacon, and no source of it');
      return valueAfter(spec, beacon, time, signal);
    },
  });
}

/** The state a worker starts from: after the newest certified checkpoint, else the one of round 0, the same for everybody. */
export async function firstCertified(
  { spec, tables, beacon, branch, sha256, crypto }: CertifiedOptions,
  lossBefore: number,
  parts: {
    readonly relays: RelaySet;
    readonly signal: AbortSignal;
    onNotice(message: string): void;
  },
): Promise<CertifiedState> {
  const params = startOf(spec);
  const start = genesisOf(spec, params, sha256);
  const first = { ...genesis(params, lossBefore), head: chainHeadOf(start, []) };
  const { layout } = params;
  const later = await fromCheckpoint(spec, {
    ...parts,
    ...{ sha256, crypto, layout },
    genesis: start,
    beacon,
    tables,
    through: branch,
  });
  if (later === undefined) return first;
  const { state, votes } = later;
  const { round, params: at, momentum } = state;
  return { ...first, round, params: at, momentum, head: chainHeadOf(state, votes) };
}
