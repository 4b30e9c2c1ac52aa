/** Parts of a certified run that are larger than one event, over relays that accept 64 KiB. */

import { philox, systemClock, unit } from 'nostrain/base';
import {
  buildMessage,
  decisionsOf,
  electorateOf,
  genesisOf,
  replay,
} from 'nostrain/certified/parts';
import { createRevealChain, tipOf } from 'nostrain/consensus';
import {
  apartIn,
  buildManifest,
  createRelaySet,
  type PublishOutcome,
  type RelaySet,
  type SignedEvent,
} from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay, type Relay } from 'nostrain/relay';
import { type RunSpec, runIdOf } from 'nostrain/run';
import { createLayout, type Layout } from 'nostrain/tensor';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  startCertified,
} from '../../support/certified-swarm.ts';
import { packWhole } from '../../support/pack-whole.ts';
import { publishRaw } from '../../support/publish-raw.ts';
import { historyOf, replayed } from '../../support/replaying.ts';
import { secretOf, signerOf, smallLayout } from '../../support/swarm.ts';
import { createTimedSwarm } from '../../support/timed-swarm.ts';

const open: Relay[] = [];
const started: CertifiedMember[] = [];
async function strictRelay(nowMs = Date.now): Promise<string> {
  const one = await createRelay({ maxEventBytes: 65_536, nowMs });
  open.push(one);
  return one.url;
}
function start(options: CertifiedOptions): CertifiedMember {
  const member = startCertified(options);
  started.push(member);
  return member;
}
afterEach(async () => {
  for (const member of started.splice(0)) member.stop();
  for (const one of open.splice(0)) await one.close();
});

/** Relays page by time, so events must not all be signed in the same second. */
const lifeOf = (index: number, nowSeconds = Math.floor(Date.now() / 1000)) => {
  const createdAt = nowSeconds - (index % 60);
  return { createdAt, expiresAt: createdAt + 90 * 86_400 };
};
const genesis = (spec: RunSpec, layout: Layout) =>
  genesisOf(spec, { layout, values: new Float32Array(layout.size) });

/** A contribution to round 0. */
function manifest(
  spec: RunSpec,
  layout: Layout,
  index: number,
  { seed = index, life = lifeOf(index) } = {},
): SignedEvent {
  const run = runIdOf(spec);
  const { modelRoot: base } = genesis(spec, layout);
  const values = Float64Array.from({ length: layout.size }, (_, i) => {
    return unit(philox([seed, 5], i, 0, 0, 0)[0]) - 0.5;
  });
  const own = { run, round: 0, parent: run, base, codec: 'int8', examples: 1, steps: 1 };
  const payload = packWhole(values, { run, round: 0 });
  return signerOf(index).sign(buildManifest(own, payload, life).draft);
}

describe('a worker that sends two manifests with payloads of 42 kB inside', () => {
  const layout = createLayout([{ name: 'w', shape: [42_000] }]);

  it('is ejected by a proof that relays accept, and a replay agrees', async () => {
    const url = await strictRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, timing: { graceMaxMs: 3000 } },
      document: { committee: { quorum: 'cft' } },
    });
    const twins = [1, 2].map((seed) => manifest(spec, layout, 2, { seed }));
    for (const twin of twins) expect(JSON.stringify(twin).length).toBeGreaterThan(55_000);
    await publishRaw(url, twins);
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, layout }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [fault] = member.events.filter((event) => event.type === 'fault');
      expect(fault).toMatchObject({ worker: keyOf(2), kind: 'equivocation' });
      expect(member.disk.state!.head!.ledger.faulted).toEqual([keyOf(2)]);
    }
    const { rounds, end } = replayed(spec, layout, await historyOf(url, spec, layout));
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full']);
    expect(end.state.ledger.faulted).toEqual([keyOf(2)]);
    expect(end.state.modelRoot).toBe(certifiedRounds(members[0]!)[1]!.certified!.root);
  }, 60_000);
});

/** More founders than fit in one event: each adds a join and a contribution to outcome 0. */
const CROWD = 540;
const indices = Array.from({ length: CROWD }, (_, index) => index);
const crowdedSpec = (): RunSpec =>
  certifiedSpec({
    ...{
      founders: indices,
      rounds: 1,
      timing: { graceMinMs: 20_000, graceMaxMs: 20_000, viewMs: 4000 },
    },
    document: { committee: { size: 4, quorum: 'cft' }, checkpoint: { every: 1, keep: 3 } },
  });

/** The messages of workers without a seat. */
function crowdOf(spec: RunSpec, seated: readonly number[], now: number): readonly SignedEvent[] {
  const run = runIdOf(spec);
  return indices.flatMap((index) => {
    if (seated.includes(index)) return [];
    const life = lifeOf(index, now);
    const tip = tipOf(createRevealChain(secretOf(index), run, spec.training.rounds));
    const join = buildMessage({ type: 'join', run, after: run, tip, evidence: '' }, life);
    return [signerOf(index).sign(join), manifest(spec, smallLayout, index, { life })];
  });
}

/** The committee of round 0, by rank. */
function seatedIn(spec: RunSpec): readonly number[] {
  const byKey = new Map(indices.map((index) => [keyOf(index), index]));
  const { committee } = electorateOf(genesis(spec, smallLayout), null);
  return committee.members.map((key) => byKey.get(key)!);
}

/** A relay that accepts chunks but loses them. */
function withoutChunks(relays: RelaySet): RelaySet {
  const [relay] = relays.relays as [string];
  const lost: PublishOutcome = {
    relay,
    status: 'accepted',
    message: '',
    attempts: 1,
    delaysMs: [],
  };
  const send: RelaySet['send'] = (event, options) =>
    event.kind === 7811 ? [Promise.resolve(lost)] : relays.send(event, options);
  return { ...relays, send, publish: (event, options) => Promise.all(send(event, options)) };
}

const spec = crowdedSpec();
const seated = seatedIn(spec);

/**
 * Runs the workers with a seat to the end of the run on their own clock; the leader of the round uses its own
 * connection.
 */
async function play(lineOfFirst: (relays: RelaySet) => RelaySet) {
  const swarm = createTimedSwarm(spec, 0, { maxEventBytes: 65_536 });
  const all = swarm.connect();
  for (const event of crowdOf(spec, seated, swarm.clock.now() / 1000)) await all.publish(event);
  const members = seated.map((index, rank) => {
    const relays = swarm.connect();
    return swarm.start({ index, relays: rank === 0 ? lineOfFirst(relays) : relays });
  });
  await swarm.finish(members, 120);
  return { swarm, members };
}

describe('a round whose outcome is larger than an event', () => {
  it('is certified, replayed in full, and followed by a newcomer', async () => {
    const { swarm, members } = await play((relays) => relays);
    const [first] = members.map((member) => certifiedRounds(member)[0]!);
    expect(first!.accepted).toHaveLength(CROWD);
    expect(first!.certified!.view).toBe(0);
    for (const member of members) {
      expect(certifiedRounds(member)[0]!.certified!.root).toBe(first!.certified!.root);
    }

    // over a relay that pages results
    const url = await strictRelay(swarm.clock.now);
    await publishRaw(url, swarm.events);
    const events = await historyOf(url, spec);
    expect(events.filter((event) => apartIn(event) !== undefined)).toHaveLength(1);
    const { rounds, end } = replayed(spec, smallLayout, events);
    expect(rounds.map(({ checked }) => checked)).toEqual(['full']);
    expect(end.state.modelRoot).toBe(first!.certified!.root);
    const lost = replayed(
      spec,
      smallLayout,
      events.filter(({ kind }) => kind !== 7811),
    );
    expect(lost.rounds).toMatchObject([
      { checked: 'nothing', missing: [{ what: 'proposal', id: end.digests[0] }] },
    ]);

    const relays = createRelaySet([url], { openSocket, clock: systemClock, crypto: nativeCrypto });
    await relays.ready();
    const asking = { relays, signal: new AbortController().signal, crypto: nativeCrypto };
    const start0 = genesis(spec, smallLayout);
    const { gathered } = await decisionsOf(spec, start0, asking);
    const playing = replay(start0, gathered);
    expect(playing.next().value).toMatchObject({ decided: { certificate: { view: 0 } } });
    await relays.close();
  }, 120_000);

  it('whose chunks a relay withholds does not block the round: the next view decides', async () => {
    const { swarm, members } = await play(withoutChunks);
    const ends = members.map((member) => certifiedRounds(member)[0]!.certified!);
    for (const { view, root } of ends) expect([view, root]).toEqual([1, ends[0]!.root]);
    const { rounds } = replayed(spec, smallLayout, swarm.events);
    expect(rounds).toMatchObject([{ checked: 'full', decided: { certificate: { view: 1 } } }]);
  }, 120_000);
});
