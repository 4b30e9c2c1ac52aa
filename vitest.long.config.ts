import { defineConfig } from 'vitest/config';

/** Statements that take minutes: whole demos, trained for real. */
export default defineConfig({
  resolve: { conditions: ['nostrain:source'] },
  test: { include: ['test/long/**/*.test.ts'], testTimeout: 1_200_000, fileParallelism: false },
});
