import { afterEach, describe, expect, it } from 'vitest';
import { createRelay, type Relay } from '../../relay/server.ts';
import { createView, fold } from '../../src/dashboard/view.ts';
import type { RunSpec } from '../../src/run/run-spec.ts';
import {
  type CertifiedMember,
  type CertifiedOptions,
  certifiedRounds,
  certifiedSpec,
  finishedRounds,
  startCertified,
  until,
} from '../support/certified-swarm.ts';
import { type CuttableLine, openLine } from '../support/cuttable-line.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { smallLayout } from '../support/swarm.ts';

const open: Pick<Relay, 'close'>[] = [];
const started: CertifiedMember[] = [];
function start(options: CertifiedOptions): CertifiedMember {
  const member = startCertified(options);
  started.push(member);
  return member;
}
afterEach(async () => {
  for (const member of started.splice(0)) member.stop();
  for (const one of open.splice(0).reverse()) await one.close();
});

const ROUNDS = 18;

/** One key may go on alone. */
const forking = (timing: Record<string, number> = {}): RunSpec =>
  certifiedSpec({
    ...{ founders: [0, 1, 2, 3], rounds: ROUNDS },
    timing: {
      ...{ graceMinMs: 1200, graceMaxMs: 3000, viewMs: 400 },
      ...{ recoveryMs: 4000, recoveryFloorPermille: 0, ...timing },
    },
  });

interface Split {
  readonly url: string;
  readonly own: string;
  readonly line: CuttableLine;
  readonly others: readonly CertifiedMember[];
  readonly alone: CertifiedMember;
}

/** Three workers on a relay, and a fourth that loses the line to it and goes on over a relay of its own. */
async function split(spec: RunSpec, undone = 2): Promise<Split> {
  const [relay, ownRelay] = [await createRelay(), await createRelay()];
  open.push(relay, ownRelay);
  const { url } = relay;
  const line = await openLine(url);
  open.push(line);
  const others = [0, 1, 2].map((index) => start({ index, relays: [url], spec, trainMs: 700 }));
  // the quicker one, so that it is in step with the others soon after it came back
  const alone = start({ index: 3, relays: [line.url, ownRelay.url], spec, trainMs: 100 });
  await finishedRounds(alone, 1);
  line.cut();
  const before = certifiedRounds(alone).length;
  await finishedRounds(alone, before + undone);
  return { url, own: ownRelay.url, line, others, alone };
}

const switchesOf = ({ events }: CertifiedMember) => events.filter((e) => e.type === 'switched');
const forksOf = ({ events }: CertifiedMember) => events.filter((e) => e.type === 'fork');
const rootOf = async (member: CertifiedMember) => (await member.finished).standing!.modelRoot;
const noticesOf = ({ events }: CertifiedMember): readonly string[] =>
  events
    .reduce((view, event) => fold(view, 'alice', event), createView(['alice']))
    .notices.map(({ message }) => message);

describe('a run that forked', () => {
  it('a worker that went on alone goes over to the branch of the many, and all end in the same bits', async () => {
    const spec = forking({ reorgDepth: 100 });
    const { url, line, others, alone } = await split(spec);
    line.mend();
    await until(alone, () => switchesOf(alone).length > 0);
    const roots = await Promise.all([...others, alone].map(rootOf));
    expect(new Set(roots).size).toBe(1);
    expect(switchesOf(alone)).toHaveLength(1);
    const [change] = switchesOf(alone);
    expect(change!.depth).toBeGreaterThanOrEqual(2);
    expect(noticesOf(alone)).toContainEqual(
      expect.stringMatching(/SWITCHED from .* the run forked in round/),
    );
    for (const other of others) expect(switchesOf(other)).toEqual([]);
    // it plays on there: what it sends counts again
    const counted = certifiedRounds(others[0]!).filter(({ accepted }) =>
      accepted.includes(alone.id),
    );
    expect(counted.some(({ index }) => index >= change!.round)).toBe(true);

    const { rounds, end } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(ROUNDS).fill('full'));
    expect(end.state.modelRoot).toBe(roots[0]);
  }, 90_000);

  it('deeper than the run allows it stays, says so, and goes over when it is told to', async () => {
    const spec = forking({ reorgDepth: 1 });
    const { line, own, others, alone } = await split(spec);
    line.mend();
    await until(alone, () => forksOf(alone).length > 0);
    const [told] = forksOf(alone);
    expect(told).toMatchObject({ obstacle: 'too-deep' });
    expect(told!.depth).toBeGreaterThan(1);
    expect(noticesOf(alone)).toContainEqual(
      expect.stringContaining(`--branch ${told!.theirs} to follow, --branch ${told!.ours} to stay`),
    );
    expect(switchesOf(alone)).toEqual([]);
    alone.stop();
    await alone.finished.catch(() => undefined);

    const { disk } = alone;
    const relays = [line.url, own];
    const again = start({ index: 3, relays, spec, disk, through: told!.theirs });
    const roots = await Promise.all([...others, again].map(rootOf));
    expect(new Set(roots).size).toBe(1);
    expect(switchesOf(again)).toHaveLength(1);
  }, 90_000);
});
