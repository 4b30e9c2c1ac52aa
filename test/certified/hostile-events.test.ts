import {
  buildMessage,
  collectEvents,
  genesisOf,
  toProtocolMessage,
} from 'nostrain/certified/parts';
import { bytesRoot } from 'nostrain/consensus';
import {
  Attachments,
  buildManifest,
  createRelaySet,
  createSigner,
  type OpenSocket,
  type SignedEvent,
} from 'nostrain/network';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import { type Commit, outcomeDigest, type Proposal, type RunSpec, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { publishCheckpoint } from '../../src/certified/wire/checkpoints.ts';
import { createView, fold } from '../../src/dashboard/view.ts';
import { shortName } from '../../src/run/worker-names.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  keyOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { packWhole } from '../support/pack-whole.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { forgedTwin } from '../support/signers.ts';
import { smallLayout as layout, secretOf } from '../support/swarm.ts';
import { createTimedStage } from '../support/timed-stage.ts';

const stage = createTimedStage(startCertified);
const { relay, start } = stage;
/** A relay that stores any event. */
const credulousRelay = async (): Promise<string> => relay({ policies: [] }).url;

const signerOf = (index: number) => createSigner(secretOf(index), nativeCrypto);
const life = (later = 0) => {
  const createdAt = Math.floor(stage.clock.now() / 1000) + later;
  return { createdAt, expiresAt: createdAt + 200 * 86_400 };
};

/** A valid contribution to round 0, signed by hand. */
function manifest(spec: RunSpec, index: number, { value = 1, later = 0 } = {}): SignedEvent {
  const run = runIdOf(spec);
  const params = { layout, values: new Float32Array(layout.size) };
  const { modelRoot: base } = genesisOf(spec, params);
  const own = { run, round: 0, parent: run, base, codec: 'int8', examples: 1, steps: 1 };
  const payload = packWhole(new Float64Array(layout.size).fill(value), { run, round: 0 });
  return signerOf(index).sign(buildManifest(own, payload, life(later)).draft);
}

function commit(spec: RunSpec, index: number): SignedEvent {
  const run = runIdOf(spec);
  const said: Commit = {
    ...{ type: 'vote', step: 'commit', justify: -1, unlisted: [], scores: [] },
    ...{ run, round: 0, attempt: 0, parent: run, view: 0 },
    ...{ ctx: 'a'.repeat(64), digest: 'b'.repeat(64) },
  };
  return signerOf(index).sign(buildMessage(said, life()));
}

/** Relays that forward one event without its signature. */
const withoutSignature =
  (id: string): OpenSocket =>
  (url) =>
    new Proxy(stage.openSocket(url), {
      get(socket, name) {
        const value: unknown = Reflect.get(socket, name);
        return typeof value === 'function' ? value.bind(socket) : value;
      },
      set(socket, name, value) {
        if (name !== 'onmessage') return Reflect.set(socket, name, value);
        socket.onmessage = (text, bytes) => {
          const isIt = text?.includes(`"id":"${id}"`);
          value(isIt ? text?.replace(/"sig":"[0-9a-f]+"/, '"sig":""') : text, bytes);
        };
        return true;
      },
    });

/** All events of a kind on a relay. */
async function stored(url: string, kind: number): Promise<readonly SignedEvent[]> {
  const relays = createRelaySet([url], {
    openSocket: stage.openSocket,
    clock: stage.clock,
    crypto: nativeCrypto,
  });
  const events: SignedEvent[] = [];
  const { signal } = new AbortController();
  await relays.ready();
  await collectEvents([{ kinds: [kind] }], { relays, signal }, (event) => void events.push(event));
  await relays.close();
  return events;
}

const reasonsOf = (member: CertifiedMember, round = 0) =>
  certifiedRounds(member)[round]!.refused.map(({ reason }) => reason);

describe('N-13: in a certified run', () => {
  it('forged, altered, misattributed and strangers’ events are dropped and counted by reason', async () => {
    const url = await credulousRelay();
    const spec = certifiedSpec({ founders: [0, 1, 2], rounds: 2 });
    const [stranger, victim] = [9, 0];
    const unsigned = manifest(spec, 10);
    const other = manifest(spec, stranger, { value: 2 });
    const inTheNameOfTheVictim = { ...other, pubkey: keyOf(victim) };
    await stage.publish(url, [
      unsigned,
      forgedTwin(manifest(spec, 11)),
      { ...manifest(spec, 12), content: '{}' },
      inTheNameOfTheVictim,
      manifest(spec, stranger),
      commit(spec, stranger),
      forgedTwin(commit(spec, victim)),
    ]);
    const lying = withoutSignature(unsigned.id);
    const members = [0, 1, 2].map((index) =>
      start({ index, relays: [url], spec, openSocket: lying }),
    );
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [first, second] = certifiedRounds(member);
      expect(first!.accepted).toEqual([0, 1, 2].map(keyOf).sort());
      expect(second!.certified!.root).toBe(certifiedRounds(members[0]!)[1]!.certified!.root);
      expect(reasonsOf(member).sort()).toEqual([
        ...['bad-id', 'bad-id', 'bad-signature', 'bad-signature'],
        ...['not-a-member', 'not-a-member', 'unsigned'],
      ]);
      const ofStranger = member.events.filter(
        (event) => event.type === 'refused' && event.worker === keyOf(stranger),
      );
      expect(ofStranger).toMatchObject([
        { round: 0, reason: 'not-a-member' },
        { round: 0, reason: 'not-a-member' },
      ]);
    }
  });
});

describe('N-12: a stranger publishes a certified checkpoint of poisoned weights', () => {
  it('a newcomer skips it, reports why, and continues from the genuine one', async () => {
    const url = await credulousRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1], rounds: 5, timing: { graceMaxMs: 2000 } },
      document: { checkpoint: { every: 2, keep: 3 } },
    });
    const members = [0, 1].map((index) => start({ index, relays: [url], spec, trainMs: 500 }));
    await finishedRounds(members[0]!, 3);
    const genuine = (await stored(url, 7812)).map((event) => JSON.parse(event.content));
    const stranger = createRelaySet([url], {
      openSocket: stage.openSocket,
      clock: stage.clock,
      crypto: nativeCrypto,
    });
    const garbage = new Uint8Array(8 * layout.size).fill(0x7f);
    const publish = (round: number, outcome: string) =>
      publishCheckpoint(
        {
          ...{ run: runIdOf(spec), round, outcome, ledgerRoot: 'c'.repeat(64) },
          modelRoot: bytesRoot(garbage),
          model: [garbage],
          ledger: new Uint8Array([123, 125]),
        },
        { me: signerOf(9).publicKey, all: [signerOf(9).publicKey] },
        new Attachments({ relays: stranger, clock: stage.clock, sha256: nativeSha256 }),
        {
          lifetime: life(),
          signal: new AbortController().signal,
          sign: (draft) => signerOf(9).sign(draft),
        },
      );
    expect(await publish(40, 'd'.repeat(64))).toBe(true);
    expect(await publish(genuine[0]!.round, genuine[0]!.outcome)).toBe(true);
    expect(await publish(41, genuine[0]!.outcome)).toBe(true);
    await stranger.close();

    const newcomer = start({ index: 2, relays: [url], spec, fetchesCheckpoint: true });
    await Promise.all([...members, newcomer].map(({ finished }) => finished));
    const notices = newcomer.events.flatMap((event) =>
      event.type === 'notice' ? [event.message] : [],
    );
    const who = shortName(keyOf(9));
    // events of the same second are sorted by id
    const skipped = notices.filter((notice) => notice.includes('skipped the')).sort();
    expect(skipped).toEqual(
      [
        `skipped the checkpoint of ${who} after round ${genuine[0]!.round + 1}: other roots are certified`,
        `skipped the checkpoint of ${who} after round 41: no quorum certified outcome dddddddd`,
        `skipped the checkpoint of ${who} after round 42: that outcome is of round ${genuine[0]!.round + 1}`,
      ].sort(),
    );
    const [first] = certifiedRounds(newcomer);
    expect(first!.index).toBeGreaterThan(genuine[0]!.round);
    const rootsOf = (member: CertifiedMember) =>
      new Map(certifiedRounds(member).map(({ index, certified }) => [index, certified!.root]));
    for (const [index, root] of rootsOf(newcomer))
      expect(rootsOf(members[0]!).get(index)).toBe(root);
    expect(first!.base).toBe(rootsOf(members[0]!).get(first!.index - 1));
  });
});

describe('T-08: a round that is closed is certified a second time', () => {
  it('the conflict is reported, keys that signed both are proven faulty to all, and no state changes', async () => {
    const url = await credulousRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, timing: { graceMaxMs: 6000 } },
      document: { committee: { quorum: 'cft' } },
    });
    const members = [0, 1, 2].map((index) => start({ index, relays: [url], spec, trainMs: 2000 }));
    await Promise.all(members.map((member) => finishedRounds(member, 1)));
    const [closed] = replayed(
      spec,
      layout,
      await historyOf(url, spec, layout, undefined, stage),
    ).rounds;
    const { outcome, certificate } = closed!.decided!;
    const { digest: expected, attempt, view, committee } = certificate;

    // two of three sign another time
    const other = { ...outcome, time: outcome.time + 1 };
    const got = outcomeDigest(other);
    const { run, parent } = outcome;
    const position = { run, round: 0, attempt, parent, ctx: committee.ctx, view, digest: got };
    const seats = committee.members.filter((key) => key !== keyOf(0));
    const signers = [1, 2].map(signerOf);
    const proposal: Proposal = {
      ...{ type: 'proposal', step: 'prepare', justify: -1, prepares: [], ballots: [] },
      ...{ ...position, outcome: other },
    };
    const commit: Commit = {
      ...{ type: 'vote', step: 'commit', justify: -1, unlisted: [], scores: [] },
      ...position,
    };
    await stage.publish(url, [
      signers[0]!.sign(buildMessage(proposal, life())),
      ...signers.map((signer) => signer.sign(buildMessage(commit, life()))),
    ]);
    await Promise.all(members.map((member) => finishedRounds(member, 2)));

    for (const member of members) {
      expect(member.events.filter(({ type }) => type === 'conflict')).toEqual([
        { type: 'conflict', round: 0, expected, got },
      ]);
      const notices = member.events
        .reduce((shown, event) => fold(shown, 'alice', event), createView(['alice']))
        .notices.map(({ message }) => message);
      expect(notices).toContain(
        `round 1: CONFLICT, ${expected.slice(0, 8)} is certified and so is ${got.slice(0, 8)}`,
      );
      const [first, second] = certifiedRounds(member);
      expect(first!.certified!.root).toBe(outcome.modelRoot);
      expect(second!.base).toBe(outcome.modelRoot);
      expect(second!.certified!.root).toBe(certifiedRounds(members[0]!)[1]!.certified!.root);
      expect(member.disk.state!.head!.before!.parent).toBe(expected);
      expect(member.disk.state!.head!.ledger.faulted).toEqual([...seats].sort());
    }
    const proofs = (await stored(url, 7817)).map((event) => toProtocolMessage(event, run));
    const culprits = proofs.map((message) => message?.type === 'fault' && message.culprit);
    expect(new Set(culprits)).toEqual(new Set(seats));
  });
});

describe('T-04: in a certified run', () => {
  it('a contribution that is re-sent, and re-signed with another date, counts once', async () => {
    const url = await credulousRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 1, timing: { viewMs: 400 } },
      document: { committee: { quorum: 'cft' } },
    });
    const first = manifest(spec, 2);
    const again = manifest(spec, 2, { later: 1 });
    await stage.publish(url, [first, again, first, again, first]);
    const members = [0, 1].map((index) => start({ index, relays: [url], spec }));
    await Promise.all(members.map((member) => finishedRounds(member, 1)));
    for (const member of members) {
      const [round] = certifiedRounds(member);
      expect(round!.accepted).toEqual([0, 1, 2].map(keyOf).sort());
      expect(member.events.filter(({ type }) => type === 'fault')).toEqual([]);
    }
    expect(certifiedRounds(members[0]!)[0]!.certified!.root).toBe(
      certifiedRounds(members[1]!)[0]!.certified!.root,
    );
  });

  it('of two different ones at most one counts, and both together prove the fault', async () => {
    const url = await credulousRelay();
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 2, timing: { graceMaxMs: 1500 } },
      document: { committee: { quorum: 'cft' } },
    });
    await stage.publish(url, [manifest(spec, 2), manifest(spec, 2, { value: 7 })]);
    const members = [0, 1].map((index) => start({ index, relays: [url], spec }));
    await Promise.all(members.map(({ finished }) => finished));
    for (const member of members) {
      const [round] = certifiedRounds(member);
      expect(round!.accepted.filter((key) => key === keyOf(2)).length).toBeLessThan(2);
      const [fault] = member.events.filter((event) => event.type === 'fault');
      expect(fault).toMatchObject({ worker: keyOf(2), kind: 'equivocation' });
      expect(member.disk.state!.head!.ledger.faulted).toEqual([keyOf(2)]);
    }
  });
});
