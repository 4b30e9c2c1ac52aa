/** How soon a newcomer contributes in a run whose workers divide the model. */
import { expect, it } from 'vitest';
import { certifiedRounds, certifiedSpec, noticesOf } from '../support/certified-swarm.ts';
import { largeLayout } from '../support/swarm.ts';
import { createTimedSwarm } from '../support/timed-swarm.ts';

const HOUR = 3600;
const TRAIN = 20;

it('a newcomer is listed, sends 84 bytes a round for three rounds, and parts of the model in the next one', async () => {
  const spec = certifiedSpec({
    ...{ founders: [0, 1, 2], rounds: 8 },
    timing: { graceMinMs: 5000, graceMaxMs: 600_000, viewMs: 10_000 },
    training: { owners: 2 },
  });
  const swarm = createTimedSwarm(spec, TRAIN);
  const layout = largeLayout;
  const founders = [0, 1, 2].map((index) => swarm.start({ index, layout }));
  await swarm.secondsUntil(() => certifiedRounds(founders[0]!).length === 2, HOUR);
  await swarm.clock.advance(7000);
  const newcomer = swarm.start({ index: 3, layout });
  await swarm.finish([...founders, newcomer], HOUR);
  const rounds = certifiedRounds(founders[0]!);
  const listed = rounds.find(({ certified }) => certified!.joined.includes(newcomer.id))!.index;
  const counted = rounds.filter(({ accepted }) => accepted.includes(newcomer.id));
  expect(counted[0]!.index).toBe(listed + 1);
  const sent = newcomer.disk.state!.contributed!.map(({ sent: { payloadBytes }, finished }) => [
    finished.round,
    payloadBytes,
  ]);
  expect(sent[0]![0]).toBe(listed + 1);
  expect(Math.min(...sent.map(([, bytes]) => bytes!))).toBeGreaterThan(1000);
  expect(noticesOf(newcomer).join()).toContain(
    'asked to join: contributes once an outcome lists it',
  );
  expect(noticesOf(newcomer).join()).not.toContain('sends nothing yet');
});
