/**
 * Founders that take part with session keys: a session key decides the first round in its founder's place, and a replay
 * agrees.
 */
import type { RefreshPort } from 'nostrain/certified';
import {
  createEvidenceStore,
  electorateOf,
  explain,
  gather,
  type ProtocolMessage,
  replay,
} from 'nostrain/certified/parts';
import {
  type RunSpec,
  runIdOf,
  type StakeSnapshot,
  snapshotId,
  stakeOf,
  type Untyped,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { ReadyRound } from '../../src/certified/decisions/chain.ts';
import { FirstRound } from '../../src/certified/rounds/first-round.ts';
import type { DriverOptions } from '../../src/certified/rounds/round.ts';
import type { Delegation } from '../../src/run/spec/feature-fields.ts';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  kill,
  startCertified,
} from '../support/certified-swarm.ts';
import { delegatedBy } from '../support/delegated.ts';
import { historyOf, zeroStart } from '../support/replaying.ts';
import { smallLayout as layout, sharedCrypto, signerOf } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;
const OWNED = 40;
/** The founder whose key is with a remote signer; the other keys from 3 on are its sessions. */
const OWNER = signerOf(OWNED);
const ROUNDS = 3;
const table: StakeSnapshot = {
  ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0, unit: 'point' },
  blockHash: '00'.repeat(32),
  rows: [keyOf(0), keyOf(1), OWNER.publicKey].sort().map((key) => ({ key, stake: 5n })),
};
const refresh: RefreshPort = { find: async () => table, publish: async () => undefined };

/** A run that keys 0, 1 and the owner found. */
function founded(document: Untyped = {}, training: Untyped = {}, rounds = ROUNDS): RunSpec {
  const founders = [keyOf(0), keyOf(1), OWNER.publicKey].sort();
  return certifiedSpec({
    ...{ founders: [0, 1, 2], rounds, training },
    document: { sessions: true, founders, author: founders[0], ...document },
  });
}

/** Returns such a run in which this founder is the first to propose. */
function foundedBy(first: string): RunSpec {
  for (let i = 0; ; i++) {
    const spec = founded({ name: `run ${i}` });
    const { committee } = electorateOf(zeroStart(spec, layout), null);
    if (committee.members[0] === first) return spec;
  }
}

type Started = Omit<CertifiedOptions, 'relays' | 'spec'>;

/** What the join of a key shows. */
const shown = (by: Delegation | null) => ({ evidence: '', features: { sessions: { by } } });

const starterIn = (spec: RunSpec, url: string) => (options: Started) => {
  const { index } = options;
  const of = { run: runIdOf(spec), session: keyOf(index) };
  const isSession = index > 2 && index !== OWNED;
  const by = isSession ? delegatedBy(OWNER, of, spec.training.rounds - 1) : null;
  return start({ relays: [url], spec, admission: shown(by), ...options });
};

async function replayOf(spec: RunSpec, url: string) {
  const events = await historyOf(url, spec, layout, undefined, stage);
  const tables = new Map([[snapshotId(table), stakeOf(table)]]);
  const gathered = gather(events, { run: runIdOf(spec), spec }, { crypto: sharedCrypto, tables });
  return { gathered, rounds: [...replay(zeroStart(spec, layout), gathered)] };
}

/**
 * Plays to the end and expects that these keys alone decide, and that all of them count from a round on, in a replay
 * too. A founder that is very late makes the first round void, also with its own key.
 */
async function expectDecided(
  spec: RunSpec,
  url: string,
  members: readonly CertifiedMember[],
  keys: readonly string[],
  from = 0,
): Promise<void> {
  const ends = await Promise.all(members.map(({ finished }) => finished));
  expect(new Set(ends.map(({ head }) => head.ledgerRoot)).size).toBe(1);
  for (const { index, accepted, certified } of members.flatMap(certifiedRounds)) {
    expect(accepted).toEqual(index < from ? [] : [...keys].sort());
    expect([...keys]).toEqual(expect.arrayContaining([...certified!.signers]));
  }
  const { rounds, gathered } = await replayOf(spec, url);
  expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
  for (const key of keys) {
    const { counted, why } = explain(key, rounds[from]!, rounds[from + 1], gathered);
    expect(counted, why.join()).toBe(true);
  }
}

describe('a founder behind a remote signer', () => {
  const runs: readonly (readonly [string, () => RunSpec])[] = [
    ['proposes the first outcome', () => foundedBy(OWNER.publicKey)],
    ['votes for an outcome of another founder', () => foundedBy(keyOf(0))],
    ['owns chunks', () => founded({}, { owners: 2 })],
    ['may be listed late', () => founded({ late: 'defer' })],
    ['is admitted', () => founded({ admission: { kind: 'list', keys: [keyOf(9)] } })],
    ['has its stake', () => founded({ stake: { source: 'file', snapshot: snapshotId(table) } })],
  ];
  it.each(runs)('decides with the others from the first round on, and %s', async (_, make) => {
    const { url } = relay();
    const spec = make();
    const startIn = starterIn(spec, url);
    const members = [0, 1, 3].map((index) => startIn({ index, refresh }));
    await expectDecided(spec, url, members, [0, 1, 3].map(keyOf));
  });

  it('is waited for, however late it joins', async () => {
    const { url } = relay();
    const spec = founded();
    const startIn = starterIn(spec, url);
    const members = [0, 1].map((index) => startIn({ index }));
    await stage.clock.sleep(600_000);
    members.push(startIn({ index: 3 }));
    await expectDecided(spec, url, members, [0, 1, 3].map(keyOf), 1);
  });

  it('may join first, and be restarted before the others come', async () => {
    const { url } = relay();
    const spec = founded();
    const startIn = starterIn(spec, url);
    const before = startIn({ index: 3 });
    await stage.clock.sleep(120_000);
    await kill(before);
    const members = [startIn({ index: 3, disk: before.disk })];
    await stage.clock.sleep(60_000);
    members.push(...[0, 1].map((index) => startIn({ index })));
    await expectDecided(spec, url, members, [0, 1, 3].map(keyOf), 1);
  });
});

it('a founder alone in its run is followed through its session key', async () => {
  const { url } = relay();
  const founders = [OWNER.publicKey];
  const spec = founded({ founders, author: OWNER.publicKey });
  await expectDecided(spec, url, [starterIn(spec, url)({ index: 3 })], [keyOf(3)]);
});

describe('a founder that changes its key', () => {
  it.each([
    ['another session key', 3],
    ['its own key', OWNED],
  ])('after %s acts through the session key that joined last', async (_, index) => {
    const { url } = relay();
    const spec = founded();
    const startIn = starterIn(spec, url);
    const members = [0, 1].map((each) => startIn({ index: each, trainMs: 3000 }));
    const lost = startIn({ index, trainMs: 3000 });
    await stage.clock.sleep(1000);
    await kill(lost);
    members.push(startIn({ index: 4 }));
    await expectDecided(spec, url, members, [0, 1, 4].map(keyOf));
  });

  it('gets its row back when it joins after the first outcome', async () => {
    const { url } = relay();
    const spec = founded({ committee: { quorum: 'cft' }, joinsPerRound: 4 }, {}, 8);
    const startIn = starterIn(spec, url);
    const members = [0, 1].map((index) => startIn({ index, trainMs: 1000 }));
    await stage.until(() => certifiedRounds(members[0]!).length === 2);
    members.push(startIn({ index: 3, trainMs: 1000 }));
    await Promise.all(members.map(({ finished }) => finished));
    const last = certifiedRounds(members[0]!).at(-1)!;
    expect(last.accepted).toEqual([0, 1, 3].map(keyOf).sort());
    const { rounds } = await replayOf(spec, url);
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(8).fill('full'));
    const roster = rounds.at(-1)!.before.ledger.members.map(({ key }) => key);
    expect(roster).toEqual([0, 1, 3].map(keyOf).sort());
  });
});

it('a stranger with the delegation of another key, or with a forged one, has no seat', async () => {
  const { url } = relay();
  const spec = founded({ committee: { quorum: 'cft' } });
  const startIn = starterIn(spec, url);
  const by = delegatedBy(OWNER, { run: runIdOf(spec), session: keyOf(3) }, ROUNDS - 1);
  const forged = { ...by, sig: '00'.repeat(64) };
  const strangers = [
    startIn({ index: 5, admission: shown(by) }),
    startIn({ index: 6, admission: shown(forged) }),
  ];
  const members = [0, 1].map((index) => startIn({ index, trainMs: 1000 }));
  const ends = await Promise.all(members.map(({ finished }) => finished));
  for (const stranger of strangers) stranger.stop();
  const { rounds } = await replayOf(spec, url);
  const joins = rounds.flatMap(({ decided }) => decided!.outcome.joins.map(({ key }) => key));
  expect(joins).toEqual([0, 1].map(keyOf).sort());
  const roster = ends[0]!.head.ledger.members.map(({ key }) => key);
  expect(roster).toEqual([keyOf(0), keyOf(1), OWNER.publicKey].sort());
});

it('a vote of a session counts once the outcome is known, and only if the outcome lists its join', () => {
  const spec = founded();
  const run = runIdOf(spec);
  const state = zeroStart(spec, layout);
  const evidence = createEvidenceStore(sharedCrypto);
  const by = delegatedBy(OWNER, { run, session: keyOf(3) }, ROUNDS - 1);
  const join = {
    ...{ type: 'join', id: 'a1', key: keyOf(3), run, after: run, tip: run },
    ...shown(by),
    signature: { createdAt: 1, expiration: 2, sig: '' },
  };
  const about = { run, round: 0, attempt: 0, parent: run, ctx: run, view: 0, justify: -1 };
  const voteFor = (digest: string, id: string) =>
    ({ ...about, type: 'vote', step: 'prepare', digest, id, key: keyOf(3) }) as ProtocolMessage;
  const proposalOf = (digest: string, joins: readonly unknown[]) =>
    ({
      ...{ ...about, type: 'proposal', step: 'prepare', digest, id: digest, key: keyOf(0) },
      ...{ outcome: { joins }, prepares: [], ballots: [] },
    }) as unknown as ProtocolMessage;
  const opened: ReadyRound[] = [];
  let mayCount: DriverOptions['mayCount'];
  const driven = {
    ...{ decided: new Promise(() => undefined), caughtUp: new Promise(() => undefined) },
    ...{ take: (message: ProtocolMessage) => evidence.add(message), close: () => undefined },
  };
  const member = { evidence, control: { admit: () => undefined } };
  evidence.add(join as ProtocolMessage);
  const round = { state, electorate: electorateOf(state, null) };
  const first = new FirstRound(round, undefined, member as never, (ready, _, rule) => {
    opened.push(ready);
    mayCount = rule;
    return driven as never;
  });
  expect(opened[0]!.electorate.roster).toContain(keyOf(3));
  expect(opened[0]!.electorate.roster).not.toContain(OWNER.publicKey);
  expect(mayCount!(voteFor('d1', 'v1'))).toBe(false);
  for (const each of [proposalOf('d1', [join]), proposalOf('d2', [])]) first.take(each);
  expect(mayCount!(voteFor('d1', 'v1'))).toBe(true);
  expect(mayCount!(voteFor('d2', 'v2'))).toBe(false);
  first.close();
});
