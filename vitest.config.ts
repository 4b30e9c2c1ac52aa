import { defineConfig } from 'vitest/config';

/** Unit tests run from the sources; `test/e2e` starts the built program. */
export default defineConfig({
  resolve: { conditions: ['nostrain:source'] },
  ssr: { resolve: { conditions: ['nostrain:source'] } },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/long/**', 'test/interop/**', 'node_modules/**'],
    pool: 'threads',
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
