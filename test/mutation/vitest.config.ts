import { defineConfig } from 'vitest/config';
import { mutationRooms } from './rooms.ts';

const room = mutationRooms[process.env.NOSTRAIN_MUTATION_ROOM!]!;

export default defineConfig({
  resolve: { conditions: ['nostrain:source'] },
  ssr: { resolve: { conditions: ['nostrain:source'] } },
  test: {
    include: JSON.parse(process.env.NOSTRAIN_MUTATION_TESTS!),
    exclude: [...(room.without ?? [])],
    setupFiles: ['test/mutation/skip-slow.ts'],
    isolate: false,
    // the runner ends tests by processor time
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
