/**
 * Attacks by deletion: authors delete what they sent, on relays that obey (NIP-09, NIP-62). The run continues and can
 * be replayed.
 */

import { archiveRun, replayRun } from 'nostrain/certified';
import { startOf } from 'nostrain/certified/parts';
import { createSigner } from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { keptSeconds, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { toProposed } from '../../src/certified/wire/messages.ts';
import { leastSeconds } from '../../src/run/spec/run-spec.ts';
import {
  type CertifiedMember,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  rootsOf,
} from '../support/certified-swarm.ts';
import { secretOf } from '../support/swarm.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const FOUNDERS = [0, 1, 2, 3];
const STRANGERS = [4, 5];
const TRAIN = 4;

const specOf = (rounds: number, every = 4) =>
  certifiedSpec({
    ...{ founders: FOUNDERS, rounds },
    document: { checkpoint: { every, keep: 3 }, joinsPerRound: 2 },
    timing: { graceMinMs: 10_000, graceMaxMs: 10_000 },
  });

/** A request to vanish (NIP-62), and a deletion request for every event (NIP-09). */
function deleteAll(swarm: TimedSwarm, index: number): void {
  const signer = createSigner(secretOf(index), nativeCrypto);
  const created_at = Math.floor(swarm.clock.now() / 1000);
  const own = swarm.events.filter(({ pubkey }) => pubkey === keyOf(index));
  const tags = own.map(({ id }) => ['e', id]);
  swarm.put(signer.sign({ kind: 5, created_at, tags, content: '' }));
  const all = [['relay', 'ALL_RELAYS']];
  swarm.put(signer.sign({ kind: 62, created_at, tags: all, content: '' }));
  expect(swarm.events.filter(({ pubkey }) => pubkey === keyOf(index)).length).toBeLessThan(3);
}

const archiveOf = (swarm: TimedSwarm, run: string) =>
  archiveRun(run, { relays: swarm.connect(), signal: new AbortController().signal });

describe('authors delete what they sent', () => {
  it('every listed stranger and one member: the run replays, admits a newcomer and is exported whole', async () => {
    const spec = specOf(8);
    const run = runIdOf(spec);
    const swarm = createTimedSwarm(spec, TRAIN);
    const { layout } = startOf(spec);
    const founders = FOUNDERS.map((index) => swarm.start({ index, layout }));
    const strangers = STRANGERS.map((index) => swarm.start({ index, layout }));
    const hasBegun = (member: CertifiedMember) => certifiedRounds(member).length >= 4;
    await swarm.secondsUntil(() => [...founders, ...strangers].every(hasBegun), HOUR);
    for (const index of [...STRANGERS, 3]) deleteAll(swarm, index);
    const newcomer = swarm.start({ index: 6, layout, fetchesCheckpoint: true });
    await swarm.finish([...founders, ...strangers, newcomer], HOUR);
    const roots = rootsOf(founders[0]!);
    expect(rootsOf(newcomer).at(-1)).toBe(roots.at(-1));
    expect(newcomer.disk.state!.head.ledger.members.map(({ key }) => key)).toContain(keyOf(6));

    // all workers are offline
    for (const index of [...STRANGERS, 3]) deleteAll(swarm, index);
    const proposed = swarm.events.flatMap((event) => {
      const read = toProposed(event);
      return read.ok ? [read.value.round] : [];
    });
    expect(new Set(proposed).size).toBeLessThan(spec.training.rounds);
    const archive = await archiveOf(swarm, run);
    const report = await replayRun(archive, { run, crypto: nativeCrypto });
    expect(report).toMatchObject({ ok: true, rounds: spec.training.rounds, firstBad: null });
    expect(report.lines.map(({ modelRoot }) => modelRoot)).toEqual(roots);
    // deleted contributions cannot be recomputed, but stay certified
    expect(report.lines.some(({ checked }) => checked === 'chain')).toBe(true);
  });
});

describe('a payload is deleted after the last checkpoint', () => {
  it('a newcomer that cannot follow that round continues from the next checkpoint automatically', async () => {
    const spec = specOf(16, 6);
    const swarm = createTimedSwarm(spec, TRAIN);
    const { layout } = startOf(spec);
    const founders = FOUNDERS.map((index) => swarm.start({ index, layout }));
    const hasBegun = (member: CertifiedMember) => certifiedRounds(member).length >= 8;
    await swarm.secondsUntil(() => founders.every(hasBegun), HOUR);
    deleteAll(swarm, 3);
    const newcomer = swarm.start({ index: 6, layout, fetchesCheckpoint: true });
    await swarm.finish([...founders, newcomer], HOUR);
    expect(rootsOf(newcomer).at(-1)).toBe(rootsOf(founders[0]!).at(-1));
    expect(newcomer.events.filter(({ type }) => type === 'switched')).toMatchObject([{ depth: 0 }]);
    expect(certifiedRounds(newcomer).length).toBeGreaterThan(0);
  });
});

describe('a member signs votes that expire soon (NIP-40)', () => {
  it('its votes do not count, and the run continues without them', async () => {
    const spec = specOf(2);
    const swarm = createTimedSwarm(spec, TRAIN);
    const { layout } = startOf(spec);
    const honest = [0, 1, 2].map((index) => swarm.start({ index, layout }));
    const hostile = { index: 3, layout, attack: { lastsSeconds: 20 * 86_400 } };
    swarm.start(hostile);
    await swarm.finish(honest, HOUR);
    for (const member of honest) {
      const signers = certifiedRounds(member).map(({ certified }) => certified!.signers);
      expect(signers.flat()).not.toContain(keyOf(3));
      expect(signers).toHaveLength(2);
      expect(member.events).toContainEqual(
        expect.objectContaining({
          ...{ type: 'refused', worker: keyOf(3) },
          detail: 'it expires before the run ends and can be archived',
        }),
      );
    }
  });

  it('events of honest members last until a month after the longest run', async () => {
    for (const rounds of [1, 1000, 1_000_000]) {
      const spec = specOf(rounds);
      for (const round of [0, 1, rounds - 1, rounds]) {
        expect(keptSeconds(spec)).toBeGreaterThan(leastSeconds(spec, round));
      }
      expect(leastSeconds(spec, rounds)).toBe(30 * 86_400);
    }
  });
});
