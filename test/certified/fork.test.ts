/**
 * A run that forks because one key may continue alone while its relays are partitioned: which branch each worker ends
 * on, and that no learned delta is lost. The times are those of a real run, on a clock that the test advances.
 */

import type { CertifiedState } from 'nostrain/certified/parts';
import { manifest } from 'nostrain/kinds';
import type { SignedEvent } from 'nostrain/network';
import type { RunSpec } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  keyOf,
  kill,
  noticesOf,
  rootsOf,
} from '../support/certified-swarm.ts';
import { deltaOf, replayed } from '../support/replaying.ts';
import { smallLayout } from '../support/swarm.ts';
import { createTimedSwarm, type TimedSwarm } from '../support/timed-swarm.ts';

const ALONE = 3;
const ROUNDS = 16;
// in seconds
const TRAIN = 60;
const GRACE = 90;
const HOUR = 3600;

const specWith = (timing: Record<string, number> = {}, rounds = ROUNDS): RunSpec =>
  certifiedSpec({
    ...{ founders: [0, 1, 2, ALONE], rounds },
    timing: {
      ...{ graceMinMs: 1000 * GRACE, graceMaxMs: 1000 * GRACE, viewMs: 10_000 },
      ...{ recoveryMs: 180_000, recoveryFloorPermille: 0, ...timing },
    },
  });

interface Parted {
  readonly swarm: TimedSwarm;
  readonly others: readonly CertifiedMember[];
  readonly alone: CertifiedMember;
  /** Unix seconds. */
  readonly partedAt: number;
  /** Every state that the isolated worker saved. */
  readonly saved: readonly CertifiedState[];
  /** Ends the partition, except for what the isolated worker is kept from. */
  mend(isKept?: (event: SignedEvent) => boolean): void;
  /** Restarts the isolated worker from its disk. */
  restart(options?: Partial<CertifiedOptions>): CertifiedMember;
}

const isOwn = ({ pubkey }: SignedEvent): boolean => pubkey === keyOf(ALONE);

/**
 * Three workers, and a fourth that is isolated from its second round until the middle of its third round alone. The
 * partition ends when it has finished the run.
 */
async function part(spec: RunSpec): Promise<Parted> {
  const swarm = createTimedSwarm(spec, TRAIN);
  let isParted = false;
  let isFrom = (_: SignedEvent): boolean => false;
  const toOthers = () => swarm.connect((event) => !isParted || !isOwn(event));
  const others = [0, 1, 2].map((index) => swarm.start({ index, relays: toOthers() }));
  const saved: CertifiedState[] = [];
  const startAlone = (options: Partial<CertifiedOptions> = {}) => {
    const relays = swarm.connect((event) => (isParted ? isOwn(event) : !isFrom(event)));
    const onSave = (state: CertifiedState) => {
      saved.push(state);
      if (state.round === spec.training.rounds) isParted = false;
    };
    return swarm.start({ index: ALONE, relays, onSave, ...options });
  };
  const alone = startAlone();
  await swarm.secondsUntil(() => certifiedRounds(alone).length === 1, HOUR);
  isParted = true;
  const partedAt = Math.floor(swarm.clock.now() / 1000);
  await swarm.secondsUntil(() => certifiedRounds(alone).length === 3, HOUR);
  await swarm.secondsUntil(() => alone.disk.state!.sent !== undefined, HOUR);
  return {
    ...{ swarm, others, alone, saved, partedAt },
    mend: (isKept = () => false) => {
      isParted = false;
      isFrom = isKept;
    },
    restart: (options) => startAlone({ disk: alone.disk, ...options }),
  };
}

const switchesOf = ({ events }: CertifiedMember) => events.filter((e) => e.type === 'switched');
const forksOf = ({ events }: CertifiedMember) => events.filter((e) => e.type === 'fork');
const tellsOfFork = (member: CertifiedMember) => () => forksOf(member).length > 0;

describe('a run that forked', () => {
  it('an isolated worker switches to the branch of the majority, and all end in the same bits', async () => {
    const spec = specWith({ reorgDepth: 2 });
    const { swarm, others, alone, mend } = await part(spec);
    mend();
    await swarm.secondsUntil(() => switchesOf(alone).length > 0, HOUR);
    const [change] = switchesOf(alone);
    expect(change).toMatchObject({ fork: 1, depth: 2 });
    expect(noticesOf(alone).at(-1)).toMatch(/SWITCHED from .* the run forked in round 2, 2 of/);
    await swarm.finish([...others, alone], 3 * HOUR);
    const roots = rootsOf(others[0]!);
    for (const member of [...others, alone]) expect(rootsOf(member).at(-1)).toBe(roots.at(-1));
    for (const other of others) expect(switchesOf(other)).toEqual([]);
    expect(forksOf(alone)).toEqual([]);
    // it continues there: its contributions count again
    const last = certifiedRounds(others[0]!).at(-1);
    expect(last!.accepted).toContain(alone.id);

    const { rounds, end } = replayed(spec, smallLayout, swarm.events);
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
    expect(rounds.map(({ forks }) => forks.length)).toEqual([0, 1, ...Array(ROUNDS - 2).fill(0)]);
    expect(end.state.modelRoot).toBe(roots.at(-1));
  });

  it('contributions that only the lost branch counted return to the residual, bit for bit', async () => {
    const spec = specWith();
    const { swarm, alone, saved, mend } = await part(spec);
    mend();
    await swarm.secondsUntil(() => switchesOf(alone).length > 0, HOUR);
    const at = saved.findIndex(({ head }) => head!.left.length > 0);
    const [before, after] = [saved[at - 1]!, saved[at]!];
    const [change] = switchesOf(alone);
    const lost = replayed(spec, smallLayout, swarm.events, change!.ours);
    const expected = Float64Array.from(before.unpacked ?? before.residual);
    for (const round of [1, 2]) {
      deltaOf(lost, round, alone.id).forEach((value, i) => {
        expected[i]! += value;
      });
    }
    expect(Array.from(after.residual)).toEqual(Array.from(expected));
    expect(Math.max(...expected.map(Math.abs))).toBeGreaterThan(0.1);
    expect(after).toMatchObject({ sent: undefined, unpacked: undefined, pending: undefined });
    expect(after.contributed!.map(({ finished, isOut }) => [finished.round, isOut])).toEqual([
      [0, true],
      [1, false],
      [2, false],
    ]);
  });

  it('beyond reorgDepth it stays, reports the fork, and switches when told to', async () => {
    const spec = specWith({ reorgDepth: 1 });
    const { swarm, others, alone, mend, restart } = await part(spec);
    mend();
    await swarm.secondsUntil(tellsOfFork(alone), HOUR);
    const [told] = forksOf(alone);
    expect(told).toMatchObject({ obstacle: 'too-deep', fork: 1, depth: 2 });
    const ways = `--branch ${told!.theirs} to switch, or --branch ${told!.ours} to stay`;
    expect(noticesOf(alone).at(-1)).toContain(ways);
    expect(switchesOf(alone)).toEqual([]);
    await kill(alone);

    const told2 = restart({ through: told!.theirs });
    await swarm.finish([...others, told2], 3 * HOUR);
    expect(switchesOf(told2)).toHaveLength(1);
    expect(rootsOf(told2).at(-1)).toBe(rootsOf(others[0]!).at(-1));
  });

  it('a worker that learns of the others only after its run is over switches then', async () => {
    const { swarm, others, alone } = await part(specWith({}, 4));
    await swarm.finish([...others, alone], 3 * HOUR);
    expect(switchesOf(alone)).toMatchObject([{ round: 4, fork: 1, depth: 3 }]);
    const { head } = await alone.finished;
    expect(head!.modelRoot).toBe(rootsOf(others[0]!).at(-1));
  });

  it('a worker that is told to stay does not switch', async () => {
    const { swarm, alone, mend, restart } = await part(specWith());
    const ours = alone.disk.state!.head!.parent;
    await kill(alone);
    mend();
    const stubborn = restart({ through: ours });
    await swarm.secondsUntil(() => certifiedRounds(stubborn).length === 2, 3 * HOUR);
    expect(switchesOf(stubborn)).toEqual([]);
    expect(forksOf(stubborn)).toEqual([]);
  });

  it('a branch that relays do not have is not compared: the worker stays and reports it', async () => {
    const { swarm, alone, mend, partedAt } = await part(specWith());
    mend((event) => isOwn(event) && event.created_at > partedAt);
    await swarm.secondsUntil(tellsOfFork(alone), HOUR);
    expect(forksOf(alone)[0]).toMatchObject({ obstacle: 'ours-unseen', fork: 1 });
    expect(switchesOf(alone)).toEqual([]);
  });

  it('a better branch with a missing payload is followed only once the payload arrives', async () => {
    const { swarm, others, alone, mend } = await part(specWith());
    const isWithheld = ({ kind, pubkey }: SignedEvent) =>
      kind === manifest.kind && pubkey === others[0]!.id;
    mend(isWithheld);
    await swarm.secondsUntil(tellsOfFork(alone), HOUR);
    expect(forksOf(alone)[0]).toMatchObject({ obstacle: 'not-whole' });
    expect(switchesOf(alone)).toEqual([]);
    mend();
    await swarm.secondsUntil(() => switchesOf(alone).length > 0, HOUR);
    await swarm.finish([...others, alone], 3 * HOUR);
    expect(rootsOf(alone).at(-1)).toBe(rootsOf(others[0]!).at(-1));
  });

  it('a chosen outcome that no relay has is reported', async () => {
    const { swarm, alone, mend, restart } = await part(specWith());
    await kill(alone);
    mend();
    const lost = restart({ through: 'f'.repeat(64) });
    await swarm.secondsUntil(
      () => lost.events.some((e) => e.type === 'notice' && /check --branch/.test(e.message)),
      HOUR,
    );
  });
});
