/** Says after a run how many tests were skipped, and why: a skipped test is never a quiet one. */
import type { Reporter, TestModule, Vitest } from 'vitest/node';

/** Where a name ends in it, the rest is why the test or its group was skipped; see `test/support/needs.ts`. */
const REASON = /\(skipped: (.+?)\)/;

/** Why, and how many tests for that reason. */
function countReasons(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) {
    const reason = REASON.exec(name)?.[1] ?? `no reason given by "${name}"`;
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return counts;
}

/** A reporter of vitest, beside the usual one. */
export class SkippedTests implements Reporter {
  #isFiltered = false;

  onInit({ config }: Vitest): void {
    this.#isFiltered = config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const names = modules
      .flatMap((module) => [...module.children.allTests('skipped')])
      .map((test) => test.fullName)
      // a test that a filter left out is not skipped
      .filter((name) => !this.#isFiltered || REASON.test(name));
    if (names.length === 0) return;
    console.log(`\nSkipped: ${names.length}`);
    for (const [reason, count] of countReasons(names)) console.log(`  ${count} × ${reason}`);
  }
}
