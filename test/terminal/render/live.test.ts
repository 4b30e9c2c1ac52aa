import { describe, expect, it } from 'vitest';
import { createView, fold, notify, type View } from '../../../src/dashboard/view.ts';
import { renderLive } from '../../../src/terminal/render/live.ts';
import { widthOf } from '../../../src/terminal/render/text.ts';
import * as told from '../../support/demo-events.ts';

const viewOf = (run: readonly told.NamedRunEvent[]): View =>
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
    nostrain demo gpt  round 2 of 2 · 2 workers · 834,048 parameters
      alice  ████▌░░░░░░░   37/100        2.7100  401.2 kB  19.3k tok/s  █▆▁
      bob    sent, received 1/2           2.4000  401.2 kB  20.5k tok/s  █▇▂▁
      waiting for alice

      round  validation  training  per worker  counted  refused    time  model
          1      3.2100    3.5000    401.2 kB        2        0    22 s  ✓ d1d1d1d1
      ✓ all hold the same model, bit for bit

      after round 1 the shared model writes
      │ KING:
      │ The ship is salt,
      │ and so am I.

      about 20 s left
    "
  `);
});

it('shows everything at the end', () => {
  expect(`\n${renderLive(viewOf(told.wholeRun), plain).join('\n')}\n`).toMatchInlineSnapshot(`
    "
    nostrain demo gpt  round 2 of 2 · 2 workers · 834,048 parameters
      alice  done                         2.4000  401.2 kB  20.5k tok/s  █▇▂▁
      bob    done                         2.4000  401.2 kB  20.5k tok/s  █▇▂▁

      round  validation  training  per worker  counted  refused    time  model
          1      3.2100    3.5000    401.2 kB        2        0    22 s  ✓ d1d1d1d1
             KING: The ship is salt, and so am I.
          2      2.6100    2.4000    401.2 kB        2        0    22 s  ✓ d2d2d2d2
             QUEEN: What crown is this?
      ✓ all hold the same model, bit for bit

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
      "  alice  starting",
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
  const long = 'a name that goes on and 中文 on '.repeat(3);
  const sample = `${'word 中文😀 '.repeat(60)}\n${'unbreakable中'.repeat(20)}`;
  let view = createView([long, 'bob']);
  for (let i = 0; i < 40; i++) {
    view = fold(view, long, told.round(i, { sample, refused: [{ reason: 'malformed' }] }));
    view = fold(view, 'bob', told.round(i, { digest: told.digestOf(7) }));
    view = notify(view, long, 'something went wrong '.repeat(20));
  }
  for (let i = 16; i < 80; i++) {
    const worker = i.toString(16).repeat(32);
    view = fold(view, 'bob', { type: 'peer', worker, state: 'training', round: i % 40 });
  }
  const saved = { folder: `/tmp/${'deep/'.repeat(40)}中`, sample: `nostrain sample '${long}'` };

  it.each([20, 39, 40, 59, 60, 79, 80, 119, 120, 300])('%d columns', (columns) => {
    for (const rows of [undefined, 12, 24, 200]) {
      const lines = renderLive(view, { ...plain, columns, saved, ...(rows ? { rows } : {}) });
      expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(columns);
    }
  });

  it.each([5, 12, 24, 60])('%d rows, the newest round among them', (rows) => {
    const lines = renderLive(view, { ...plain, columns: 79, rows });
    expect(lines.length).toBeLessThanOrEqual(rows);
    if (rows >= 24) expect(lines.some((line) => /^ +40 /.test(line))).toBe(true);
  });
});

it('a text that carries escape sequences stays text', () => {
  const sample = 'before\u001b[2J\u001b[Hafter\u0007';
  const view = viewOf([['alice', told.round(0, { sample })]]);
  const lines = renderLive(view, plain).join('\n');
  expect(lines).not.toContain('\u001b');
  expect(lines).toContain('before·[2J·[Hafter·');
});

describe('a worker among others on their own screens', () => {
  const away = '13'.repeat(32);
  const sent = '14'.repeat(32);
  const mine = (events: readonly Parameters<typeof fold>[2][]) =>
    events.reduce((view, event) => fold(view, 'me', event), createView(['me']));
  const peer = (
    worker: string,
    state: 'training' | 'sent' | 'away',
    round: number,
  ): Parameters<typeof fold>[2] => ({
    ...{ type: 'peer', worker, state, round },
    ...(state === 'sent' ? { eventBytes: 57_034 } : {}),
    ...(state === 'training' ? { digest: told.digestOf(round) } : {}),
  });
  const published = (round: number): Parameters<typeof fold>[2] => ({
    ...{ type: 'published', round, payloadBytes: 42_006, eventBytes: 57_034 },
    ...{ relays: ['ws://127.0.0.1:1'], failed: [] },
  });
  const played = [0, 1, 2].flatMap((index) => [
    peer(told.bob, 'sent', index),
    published(index),
    told.round(index, { validationLoss: 3 - index / 2, eventBytes: 57_034, sample: 'KING:\nAy.' }),
    peer(told.bob, 'training', index + 1),
  ]);
  const view = mine([
    { ...told.hello(told.alice), rounds: 20, innerSteps: 25 } as Parameters<typeof fold>[2],
    ...played,
    peer(away, 'away', 1),
    peer(sent, 'sent', 3),
    { ...told.progress(3, 12, 2.1), steps: 25 } as Parameters<typeof fold>[2],
    { type: 'notice', message: 'relay offline, retrying: wss://relay.example.org: closed (1006)' },
  ]);
  const options = {
    ...{ title: 'run winter', color: false, rows: 30 },
    saved: { folder: '/home/me/runs/winter', sample: 'nostrain sample /home/me/runs/winter' },
  };

  it.each([40, 60, 80, 120])('at %d columns', (columns) => {
    const lines = renderLive(view, { ...options, columns });
    expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(columns);
    expect(`\n${lines.join('\n')}\n`).toMatchSnapshot();
  });

  it('sees whom it waits for, by name or key', () => {
    const missing = [away, told.bob];
    const waiting = { type: 'waiting', what: 'gradients', round: 3, have: 2, want: 4 } as const;
    const lines = renderLive(fold(view, 'me', { ...waiting, missing }), {
      ...options,
      columns: 80,
    });
    expect(lines).toContain('  waiting for npub1zvf3xyc, npub1k2et9v4');
    expect(lines.join('\n')).toContain('sent, received 2/4');
  });

  it('keeps the rounds in view however much there is to tell', () => {
    const long = { type: 'notice', message: 'something goes on and on '.repeat(20) } as const;
    const noisy = [long, long, { ...long, message: `the newest ${long.message}` }].reduce(
      (seen, event) => fold(seen, 'me', event),
      view,
    );
    const lines = renderLive(noisy, { ...options, columns: 80, rows: 24 });
    expect(lines.filter((line) => /^ {6}\d {2}/.test(line))).toHaveLength(3);
    const told = lines.filter((line) => line.includes('goes on and on'));
    expect(told).toHaveLength(5);
    expect(told.slice(2).join(' ')).toContain('the newest something');
  });

  it('counts those there is no room for', () => {
    const many = Array.from({ length: 30 }, (_, i) =>
      peer((i + 32).toString(16).repeat(32), i % 2 ? 'sent' : 'training', 3),
    );
    const crowd = many.reduce((seen, event) => fold(seen, 'me', event), view);
    const lines = renderLive(crowd, { ...options, columns: 80, rows: 24 });
    expect(lines.length).toBeLessThanOrEqual(24);
    expect(lines.some((line) => /… and \d+ more: \d+ sent, \d+ training/.test(line))).toBe(true);
    expect(lines.some((line) => line.includes('npub1zvf3xyc  away'))).toBe(true);
  });
});
