import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { mutationRooms } from './rooms.ts';

const room = mutationRooms[process.env.NOSTRAIN_MUTATION_ROOM!]!;

/** Runs the quickest files first: the first test that fails ends the run of a change. */
class QuickestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).reverse();
  }
}

export default defineConfig({
  resolve: { conditions: ['nostrain:source'] },
  ssr: { resolve: { conditions: ['nostrain:source'] } },
  test: {
    include: JSON.parse(process.env.NOSTRAIN_MUTATION_TESTS!),
    exclude: [...(room.without ?? [])],
    setupFiles: ['test/mutation/skip-slow.ts'],
    sequence: { sequencer: QuickestFirst },
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
