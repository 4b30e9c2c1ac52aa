/** The committee of a round of a real run: followed on its relays from the run id on, as its workers do. */
import { ConfigError } from '../base/errors.ts';
import { neededBeacon } from '../cli/beacon.ts';
import { findRun, passingSigner } from '../cli/run/find-run.ts';
import type { MemberFlags } from '../cli/run/member-flags.ts';
import { parseRelayUrls } from '../network/transport/relay-urls.ts';
import { connectRelays } from '../node/connect-relays.ts';
import type { Committee } from '../run/committee.ts';
import type { WorkerId } from '../run/ids.ts';
import { type ConnectionFlags, connectionOf } from '../terminal/connection.ts';
import { decisionsOf } from './decisions.ts';
import { electorateOf, stakesOf } from './electorate.ts';
import type { Verdict } from './evidence.ts';
import { type Chain, genesisOf, withEntropy } from './history.ts';
import { givenTables } from './join-run.ts';
import { replay } from './replay.ts';
import { startOf } from './start.ts';

export interface RunFlags extends ConnectionFlags, MemberFlags {
  readonly relay?: readonly string[];
}

export interface RunCommittee {
  readonly chain: Chain;
  readonly committee: Committee;
  /** Of the table that holds; null in a run without. */
  readonly stakes: ReadonlyMap<WorkerId, bigint> | null;
}

/** Of the round asked for, else of the one in progress; `attempt` is drawn from all who may sit. */
export async function committeeInRun(
  source: string,
  flags: RunFlags,
  { round, attempt }: { readonly round: number | undefined; readonly attempt: number },
  signal: AbortSignal,
): Promise<RunCommittee> {
  const connection = connectionOf(flags);
  const found = await findRun(source, { relays: flags.relay, connection, signal });
  const { spec } = found;
  const urls = parseRelayUrls(found.relays);
  const relays = await connectRelays(urls, connection, passingSigner(), signal);
  try {
    const start = genesisOf(spec, startOf(spec));
    const tables = await givenTables(spec, flags.stake, { relays, signal });
    const options = { relays, signal, beacon: neededBeacon(spec, flags), tables };
    const { gathered: events } = await decisionsOf(spec, start, options);
    const before = chainBefore(replay(start, events), round);
    const chain = here(withEntropy(before, events));
    const stakes = here(stakesOf(chain.ledger, events));
    const electorate = electorateOf(chain, stakes);
    return { chain, stakes, committee: electorate.draw(attempt, electorate.live) };
  } finally {
    await relays.close();
  }
}

function chainBefore(playing: ReturnType<typeof replay>, round: number | undefined): Chain {
  for (;;) {
    const next = playing.next();
    const chain = next.done ? next.value.state : next.value.before;
    if (chain.round === round || (next.done && round === undefined)) return chain;
    if (!next.done) continue;
    throw new ConfigError('flag/epoch', `nobody decided who votes in round ${round} yet`, {
      hint: `round ${chain.round} is in progress, as far as these relays know`,
    });
  }
}

function here<T>(verdict: Verdict<T>): T {
  if (verdict.ok) return verdict.value;
  const lacks = 'missing' in verdict ? verdict.missing.map(({ what, id }) => `${what} ${id}`) : [];
  throw new ConfigError('run/missing', `not here: ${lacks.join(', ')}`, {
    hint: 'name its stakes with --stake FILE, other relays with --relay URL, or endpoints of its beacon',
  });
}
