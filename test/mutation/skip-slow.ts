/** Skips the slow tests of the room in a run of `npm run mutate`. */
import { beforeEach } from 'vitest';
import { mutationRooms } from './rooms.ts';

// the change before this one is still switched on while the tests are loaded
const stryker = (globalThis as { __stryker__?: { activeMutant?: string | undefined } }).__stryker__;
if (stryker) stryker.activeMutant = undefined;

const { slow } = mutationRooms[process.env.NOSTRAIN_MUTATION_ROOM!]!;

beforeEach(({ task, skip }) => {
  const names = [task.name];
  for (let suite = task.suite; suite; suite = suite.suite) names.unshift(suite.name);
  if (slow?.test(names.join(' '))) skip('a change would wait for it');
});
