import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { SkippedTests } from './test/setup/skipped-tests.ts';

const build = './build.ts';
const process = 'test/**/process/**/*.test.ts';
const endToEnd = 'test/**/e2e/**/*.test.ts';
const longRunning = 'test/long/**/*.test.ts';
const interop = 'test/interop/**/*.test.ts';
const minute = 60_000;

/** Suites run one after the other. A suite that is not isolated keeps the modules it has loaded for its next file. */
const suites = {
  /** Runs the sources in the test process. Part of `npm test`. */
  unit: {
    include: ['test/**/*.test.ts'],
    exclude: [process, endToEnd, longRunning, interop],
    isolate: false,
    // some of them wait for sockets while others compute
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    timeout: minute,
  },
  /** Starts the built program, a chain or a browser: one test or a few for each family of commands. Part of `npm test`. */
  process: {
    include: [process],
    globalSetup: build,
    isolate: false,
    maxWorkers: Math.max(2, availableParallelism()),
    timeout: minute,
  },
  /** The other tests of processes and browsers, and swarms over faulty relays in real time: `npm run test:e2e`. */
  e2e: {
    include: [endToEnd],
    globalSetup: build,
    isolate: false,
    maxWorkers: Math.max(2, availableParallelism()),
    timeout: minute,
  },
  /** Demos at full length, which take minutes each: `npm run test:long`. */
  long: {
    include: [longRunning],
    globalSetup: build,
    isolate: true,
    maxWorkers: 1,
    timeout: 20 * minute,
  },
  /** Third-party relays and the Python reference, if installed: `npm run test:interop`. */
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
    projects: Object.entries(suites).map(([name, { timeout, ...suite }], groupOrder) => ({
      resolve: { conditions: ['nostrain:source'] },
      ssr: { resolve: { conditions: ['nostrain:source'] } },
      test: {
        name,
        pool: 'forks' as const,
        sequence: { groupOrder: groupOrder + 1 },
        testTimeout: timeout,
        hookTimeout: timeout,
        ...suite,
      },
    })),
  },
});
