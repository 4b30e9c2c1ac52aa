import { describe, expect, it } from 'vitest';
import { createView, fold, notify, type View } from '../../../src/dashboard/view.ts';
import { renderLive } from '../../../src/terminal/render/live.ts';
import * as told from '../../support/demo-events.ts';

const viewOf = (run: readonly told.Told[]): View =>
  run.reduce((view, [name, event]) => fold(view, name, event), createView(['alice', 'bob']));
const plain = { title: 'nostrain demo gpt', columns: 100, color: false };
const ESCAPES = new RegExp(`${String.fromCharCode(27)}\\[[0-9]+m`, 'g');

it('shows a run in the middle of its second round', () => {
  const waiting = { type: 'waiting', what: 'gradients', round: 1, have: 1, want: 2 } as const;
  const view = viewOf([
    ...told.wholeRun.slice(0, -9),
    ['bob', { ...waiting, missing: [told.alice] }],
    ['alice', told.progress(1, 37, 2.71)],
  ]);
  expect(`\n${renderLive(view, { ...plain, rows: 30 }).join('\n')}\n`).toMatchInlineSnapshot(`
    "
    nostrain demo gpt  2 workers · 834,048 parameters · round 2 of 2
      alice  █████▉░░░░░░░░░░    37/100    2.7100  19.3k tok/s  █▆▁
      bob    collecting gradients 1/2      2.4000  20.5k tok/s  █▇▂▁

      round  validation    training  per worker  counted  refused    time  bits
          1      3.2100      3.5000    401.2 kB        2        0    22 s  ✓ d1d1d1d1

      after round 1 the shared model writes
      │ KING:
      │ The ship is salt,
      │ and so am I.
    "
  `);
});

it('shows everything at the end', () => {
  expect(`\n${renderLive(viewOf(told.wholeRun), plain).join('\n')}\n`).toMatchInlineSnapshot(`
    "
    nostrain demo gpt  2 workers · 834,048 parameters · round 2 of 2
      alice  done                          2.4000  20.5k tok/s  █▇▂▁
      bob    done                          2.4000  20.5k tok/s  █▇▂▁

      round  validation    training  per worker  counted  refused    time  bits
          1      3.2100      3.5000    401.2 kB        2        0    22 s  ✓ d1d1d1d1
             KING: The ship is salt, and so am I.
          2      2.6100      2.4000    401.2 kB        2        0    22 s  ✓ d2d2d2d2
             QUEEN: What crown is this?

      after round 2 the shared model writes
      │ QUEEN:
      │ What crown is this?
    "
  `);
});

it('shows a start with nothing known', () => {
  expect(renderLive(createView(['alice']), plain)).toMatchInlineSnapshot(`
    [
      "nostrain demo gpt  1 worker",
      "  alice  starting                                           ",
    ]
  `);
});

it('colors nothing but what it says without color', () => {
  const view = notify(viewOf(told.wholeRun), 'bob', 'a notice');
  const colored = renderLive(view, { ...plain, color: true });
  expect(colored.join('\n')).toMatch(ESCAPES);
  expect(colored.map((line) => line.replace(ESCAPES, ''))).toEqual(renderLive(view, plain));
});

describe('fits', () => {
  const long = 'a name that goes on and on '.repeat(3);
  const sample = `${'word '.repeat(60)}\n${'unbreakable'.repeat(20)}`;
  let view = createView([long, 'bob']);
  for (let i = 0; i < 40; i++) {
    view = fold(view, long, told.round(i, { sample, refused: [{ reason: 'malformed' }] }));
    view = fold(view, 'bob', told.round(i, { digest: told.digestOf(7) }));
    view = notify(view, long, 'something went wrong '.repeat(20));
  }

  it.each([20, 40, 79, 120, 300])('%d columns', (columns) => {
    for (const rows of [undefined, 12]) {
      const lines = renderLive(view, { ...plain, columns, ...(rows ? { rows } : {}) });
      expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(columns);
    }
  });

  it.each([5, 12, 24, 60])('%d rows, the newest round among them', (rows) => {
    const lines = renderLive(view, { ...plain, columns: 79, rows });
    expect(lines.length).toBeLessThanOrEqual(rows);
    if (rows >= 24) expect(lines.some((line) => /^ {5}40 /.test(line))).toBe(true);
  });
});

it('a text that carries escape sequences stays text', () => {
  const sample = 'before\u001b[2J\u001b[Hafter\u0007';
  const view = viewOf([['alice', told.round(0, { sample })]]);
  const lines = renderLive(view, plain).join('\n');
  expect(lines).not.toContain('\u001b');
  expect(lines).toContain('before·[2J·[Hafter·');
});
