/** What of a certified run is larger than one event, over relays that take 64 KiB. */
import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../../relay/server.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { philox, unit } from '../../../src/base/rng.ts';
import { electorateOf } from '../../../src/certified/electorate.ts';
import { decisionsOf } from '../../../src/certified/from-relays.ts';
import { genesisOf } from '../../../src/certified/history.ts';
import { replay } from '../../../src/certified/replay.ts';
import { createRevealChain, tipOf } from '../../../src/consensus/committee/reveal.ts';
import { apartIn } from '../../../src/network/attachments/bodies.ts';
import { createSigner, type SignedEvent } from '../../../src/network/event.ts';
import { createRelaySet } from '../../../src/network/transport/relay-set.ts';
import type { OpenSocket } from '../../../src/network/transport/socket.ts';
import { buildMessage } from '../../../src/network/wire/certified-events.ts';
import { buildManifest } from '../../../src/network/wire/manifests.ts';
import { nativeCrypto } from '../../../src/node/native-crypto.ts';
import { openSocket } from '../../../src/node/sockets.ts';
import { type RunSpec, runIdOf } from '../../../src/run/run-spec.ts';
import { createLayout, type Layout } from '../../../src/tensor/params.ts';
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
import { secretOf, smallLayout } from '../../support/swarm.ts';

const open: Relay[] = [];
const started: CertifiedMember[] = [];
async function strictRelay(): Promise<string> {
  const one = await createRelay({ maxEventBytes: 65_536 });
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

const nowSeconds = Math.floor(Date.now() / 1000);
/** Relays page through what is stored by time: not everybody signs in the same second. */
const lifeOf = (index: number) => {
  const createdAt = nowSeconds - (index % 60);
  return { createdAt, expiresAt: createdAt + 86_400 };
};
const signerOf = (index: number) => createSigner(secretOf(index), nativeCrypto);
const genesis = (spec: RunSpec, layout: Layout) =>
  genesisOf(spec, { layout, values: new Float32Array(layout.size) });

/** A contribution to round 0. */
function manifest(spec: RunSpec, layout: Layout, index: number, seed = index): SignedEvent {
  const run = runIdOf(spec);
  const { modelRoot: base } = genesis(spec, layout);
  const values = Float64Array.from({ length: layout.size }, (_, i) => {
    return unit(philox([seed, 5], i, 0, 0, 0)[0]) - 0.5;
  });
  const own = { run, round: 0, parent: run, base, codec: 'int8', examples: 1, steps: 1 };
  const payload = packWhole(values, { run, round: 0 });
  return signerOf(index).sign(buildManifest(own, payload, lifeOf(index)).draft);
}

describe('a worker that sends two manifests with payloads of 42 kB inside', () => {
  const layout = createLayout([{ name: 'w', shape: [42_000] }]);

  it('is named by a proof that relays take, out of the roster, and a replay finds the same', async () => {
    const url = await strictRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, timing: { graceMaxMs: 3000 } },
      document: { committee: { quorum: 'cft' } },
    });
    const twins = [manifest(spec, layout, 2, 1), manifest(spec, layout, 2, 2)];
    for (const twin of twins) expect(JSON.stringify(twin).length).toBeGreaterThan(55_000);
    await publishRaw(url, twins);
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, layout }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [fault] = member.events.filter((event) => event.type === 'fault');
      expect(fault).toMatchObject({ worker: keyOf(2), kind: 'equivocation' });
      expect(member.disk.state!.head!.ledger.faulted).toEqual([keyOf(2)]);
    }
    const { rounds, end } = replayed(spec, layout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(['full', 'full']);
    expect(end.state.ledger.faulted).toEqual([keyOf(2)]);
    expect(end.state.modelRoot).toBe(certifiedRounds(members[0]!)[1]!.certified!.root);
  }, 60_000);
});

/** More founders than one event has room for: each is a join and a row of outcome 0. */
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

/** What everybody sends who has no seat. */
function crowdOf(spec: RunSpec, seated: readonly number[]): readonly SignedEvent[] {
  const run = runIdOf(spec);
  return indices.flatMap((index) => {
    if (seated.includes(index)) return [];
    const tip = tipOf(createRevealChain(secretOf(index), run, spec.training.rounds));
    const join = buildMessage({ type: 'join', run, after: run, tip, evidence: '' }, lifeOf(index));
    return [signerOf(index).sign(join), manifest(spec, smallLayout, index)];
  });
}

/** Those of the committee of round 0, by rank. */
function seatedIn(spec: RunSpec): readonly number[] {
  const byKey = new Map(indices.map((index) => [keyOf(index), index]));
  const { committee } = electorateOf(genesis(spec, smallLayout), null);
  return committee.members.map((key) => byKey.get(key)!);
}

/** A line on which chunks get lost, although the relay seems to take them. */
const withoutChunks: OpenSocket = (url) => {
  const socket = openSocket(url);
  return new Proxy(socket, {
    get(_, name) {
      const value: unknown = Reflect.get(socket, name);
      if (name !== 'send') return typeof value === 'function' ? value.bind(socket) : value;
      return (text: string) => {
        const [verb, event] = JSON.parse(text);
        if (verb !== 'EVENT' || event.kind !== 7811) return socket.send(text);
        const answer = JSON.stringify(['OK', event.id, true, '']);
        queueMicrotask(() => socket.onmessage?.(answer, answer.length));
      };
    },
    set: (_, name, value) => Reflect.set(socket, name, value),
  });
};

describe('a round whose outcome is larger than an event', () => {
  it('is certified, replayed in full, and followed by who starts from nothing', async () => {
    const url = await strictRelay();
    const spec = crowdedSpec();
    const seated = seatedIn(spec);
    await publishRaw(url, crowdOf(spec, seated));
    const members = seated.map((index) => start({ index, relays: [url], spec }));
    await Promise.all(members.map(({ finished }) => finished));
    const [first] = members.map((member) => certifiedRounds(member)[0]!);
    expect(first!.accepted).toHaveLength(CROWD);
    expect(first!.certified!.view).toBe(0);
    for (const member of members) {
      expect(certifiedRounds(member)[0]!.certified!.root).toBe(first!.certified!.root);
    }

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
    const asking = { relays, signal: new AbortController().signal };
    const start0 = genesis(spec, smallLayout);
    const { gathered } = await decisionsOf(spec, start0, asking);
    const playing = replay(start0, gathered);
    expect(playing.next().value).toMatchObject({ decided: { certificate: { view: 0 } } });
    await relays.close();
  }, 120_000);

  it('whose chunks a relay withholds is as good as not proposed: the next view decides', async () => {
    const url = await strictRelay();
    const spec = crowdedSpec();
    const seated = seatedIn(spec);
    await publishRaw(url, crowdOf(spec, seated));
    const members = seated.map((index, rank) =>
      start({ index, relays: [url], spec, ...(rank === 0 && { openSocket: withoutChunks }) }),
    );
    await Promise.all(members.map(({ finished }) => finished));
    const ends = members.map((member) => certifiedRounds(member)[0]!.certified!);
    for (const { view, root } of ends) expect([view, root]).toEqual([1, ends[0]!.root]);
    const { rounds } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds).toMatchObject([{ checked: 'full', decided: { certificate: { view: 1 } } }]);
  }, 120_000);
});
