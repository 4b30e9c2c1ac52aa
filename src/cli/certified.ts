/** A worker of a run with a spec, as a member of its certified rounds: its votes on disk, its reveal chain, the stakes of the run. */
import { readFile } from 'node:fs/promises';
import { systemClock } from '../base/clock.ts';
import { ConfigError } from '../base/errors.ts';
import { createEventSource, createFileSource } from '../chain/fixed-sources.ts';
import { createChain, revealOf, tipOf } from '../consensus/committee/reveal.ts';
import type { Signer } from '../network/event.ts';
import type { RelaySet } from '../network/transport/relay-set.ts';
import { createControl } from '../network/wire/control.ts';
import { nativeCrypto } from '../node/native-crypto.ts';
import { nativeSha256 } from '../node/native-sha256.ts';
import type { Digest, WorkerId } from '../run/ids.ts';
import { type RunSpec, runIdOf } from '../run/run-spec.ts';
import { stakeOf } from '../run/stake-snapshot.ts';
import type { Noun } from '../worker/certified/evidence.ts';
import { genesisOf } from '../worker/certified/history.ts';
import type { Journal } from '../worker/certified/journal.ts';
import { Member, type MemberOptions } from '../worker/certified/member.ts';
import { toNoun } from '../worker/certified/nouns.ts';
import { standingOf } from '../worker/certified/standing.ts';
import { startOf } from '../worker/certified/start.ts';
import { genesis, type WorkerState } from '../worker/state.ts';
import { fromCheckpoint } from './catch-up.ts';
import { findOver } from './stake/events.ts';

export interface CertifiedOptions {
  readonly spec: RunSpec;
  /** File of the stake snapshot; without it relays are asked for it. */
  readonly stakeFile?: string | undefined;
}

interface Parts {
  readonly relays: RelaySet;
  readonly signer: Signer;
  readonly secretKey: Uint8Array;
  readonly journal: Journal;
  readonly ports: MemberOptions['ports'];
  readonly signal: AbortSignal;
}

export function createMember({ spec, stakeFile }: CertifiedOptions, parts: Parts): Member {
  const { relays, signer, secretKey, journal, ports, signal } = parts;
  const run = runIdOf(spec);
  const chain = createChain(secretKey, run, spec.training.rounds);
  const control = createControl<Noun>({
    ...{ run, relays, signer, clock: systemClock, sha256: nativeSha256, signal },
    read: (event) => toNoun(event, run, nativeCrypto),
  });
  return new Member({
    ...{ spec, run, control, journal, ports, signal },
    chain: { tip: tipOf(chain), reveal: (round) => revealOf(chain, round) },
    stakes: (snapshot) => stakesOf(snapshot, stakeFile, relays.relays, signal),
    beacon: () => Promise.reject(new Error('there is no way to fetch it')),
  });
}

/** The table of that id, whoever has it: its bytes are its name. */
async function stakesOf(
  snapshot: Digest,
  file: string | undefined,
  relays: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<WorkerId, bigint>> {
  const source =
    file === undefined
      ? createEventSource(snapshot, findOver(relays))
      : createFileSource(file, await readFile(file, 'utf8'), snapshot);
  return stakeOf(await source.snapshot(0, signal));
}

/** The state a worker starts from: after the newest certified checkpoint, else the one of round 0, the same for everybody. */
export async function firstCertified(
  spec: RunSpec,
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
  const later = await fromCheckpoint(spec, { ...parts, layout, genesis: start });
  return later === undefined ? first : { ...first, ...later, round: later.standing.round };
}

/** Throws for rules that this program does not play by. */
export function assertPlayable({ beacon, late }: RunSpec): void {
  const refuse = (field: string, value: string, accepted: string) =>
    new ConfigError(
      'run/unplayable',
      `the run says ${field} = ${value}; this program plays ${accepted}`,
      {
        hint: `join or make a run whose ${field} is ${accepted}`,
      },
    );
  if (beacon.kind !== 'none') throw refuse('beacon.kind', beacon.kind, 'none');
  if (late !== 'discard') throw refuse('late', late, 'discard');
}
