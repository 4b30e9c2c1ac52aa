import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { SkippedTests } from './test/setup/skipped-tests.ts';

const build = './test/setup/build.ts';
const endToEnd = 'test/**/e2e/**/*.test.ts';
const longRunning = 'test/long/**/*.test.ts';
const interop = 'test/interop/**/*.test.ts';
const minute = 60_000;

/** One group runs after the other; what is not isolated keeps the modules it has loaded for the next file. */
const parts = {
  /** What needs no process of its own, from the sources. */
  unit: {
    include: ['test/**/*.test.ts'],
    exclude: [endToEnd, longRunning, interop],
    isolate: false,
    // some of them wait for sockets while others compute
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    timeout: minute,
  },
  /** The built program, whole swarms, and what else takes processes. */
  e2e: {
    include: [endToEnd],
    globalSetup: build,
    isolate: false,
    maxWorkers: Math.max(2, availableParallelism()),
    timeout: minute,
  },
  /** Statements that take minutes: whole demos, trained for real. */
  long: {
    include: [longRunning],
    globalSetup: build,
    isolate: true,
    maxWorkers: 1,
    timeout: 20 * minute,
  },
  /** Over relays and beside a reference that nobody here wrote, as far as they are installed. */
  interop: {
    include: [interop],
    globalSetup: build,
    isolate: true,
    maxWorkers: 1,
    timeout: minute,
  },
};

export default defineConfig({
  test: {
    reporters: ['default', new SkippedTests()],
    projects: Object.entries(parts).map(([name, { timeout, ...part }], groupOrder) => ({
      resolve: { conditions: ['nostrain:source'] },
      ssr: { resolve: { conditions: ['nostrain:source'] } },
      test: {
        name,
        pool: 'forks' as const,
        sequence: { groupOrder: groupOrder + 1 },
        testTimeout: timeout,
        hookTimeout: timeout,
        ...part,
      },
    })),
  },
});
