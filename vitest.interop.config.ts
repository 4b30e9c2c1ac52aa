import { defineConfig } from 'vitest/config';

/** Over relays that nobody here wrote, as far as they are installed: see `test/interop/`. */
export default defineConfig({
  resolve: { conditions: ['nostrain:source'] },
  test: {
    include: ['test/interop/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
