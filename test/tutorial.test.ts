/** Every program of docs/tutorial.md runs as it stands and prints what the page says it prints. */
import { describe, expect, it, vi } from 'vitest';
import { runBlock } from './support/run-block.ts';
import { tutorialPrograms as programs, tutorial } from './support/tutorial.ts';
import { typeErrors } from './support/type-errors.ts';

describe('docs/tutorial.md', () => {
  it('has four programs, and no code that is not run', () => {
    expect(programs).toHaveLength(4);
    expect(tutorial.match(/^```ts$/gm)).toHaveLength(programs.length);
  });

  it.each(programs)('program $i', { timeout: 120_000 }, async ({ i, code, output }) => {
    const printed: string[] = [];
    const log = vi.spyOn(console, 'log').mockImplementation((line) => void printed.push(`${line}`));
    try {
      await runBlock(`tutorial-${i}`, code);
    } finally {
      log.mockRestore();
    }
    expect(`${printed.join('\n')}\n`).toBe(output);
  });

  it('its programs compile', { timeout: 180_000 }, () => {
    const blocks = programs.map(({ i, code }) => ({ name: `program ${i}`, code }));
    expect(typeErrors(blocks)).toEqual([]);
  });
});
