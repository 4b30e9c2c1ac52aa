/**
 * The simulated runs of `docs/assets/scale.ndjson` as a table on stdout and, where a file is named, a picture: workers against what comes to each
 * of them in a round.
 *
 *   npm run bench:scale -- docs/assets/scale.svg
 */
import { writeFileSync } from 'node:fs';
import { readScale, type ScaleRow } from './simulate/rows.ts';

const SIZE = { width: 760, height: 400 };
const PLOT = { left: 72, right: 560, top: 24, bottom: 352 };
const FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const [LEAST, MOST] = [
  { workers: 10, bytes: 50_000 },
  { workers: 4000, bytes: 10_000_000 },
];
/** How far below their last point names stand, so that those of lines close to each other do not meet. */
const LABEL_DOWN = [4, 20, -8] as const;
const COLORS = ['#0969da', '#bc4c00', '#6e7781'] as const;

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** Rounds but the first one, in which everybody also joins, and the last one, which leaves a checkpoint. */
const later = ({ rounds }: ScaleRow) => (rounds.length > 2 ? rounds.slice(1, -1) : rounds.slice(1));
const downOf = (row: ScaleRow): number => mean(later(row).map(({ bytesDown }) => bytesDown));

const nameOf = ({ relays, copies, contributors, reads }: ScaleRow): string => {
  const some = `${reads ? 'read' : 'sent to'} ${copies} of ${relays} relays`;
  const where = copies === 0 ? `all ${relays} relays` : some;
  return `${contributors === 0 ? 'all' : contributors} contribute, ${where}`;
};

function renderTable(rows: readonly ScaleRow[]): string {
  const lines = rows.map((row) => {
    const { workers, seed, rounds, roots } = row;
    const kB = (bytes: number) => `${(bytes / 1000).toFixed(0)} kB`;
    const cpu = mean(later(row).map(({ cpuSeconds }) => cpuSeconds)) / workers;
    const last = mean(later(row).map(({ toCertificate }) => toCertificate[1]));
    const heap = rounds.at(-1)!.heapBytes / workers / 1e6;
    const [first, end] = [kB(rounds[0]!.bytesDown), kB(rounds.at(-1)!.bytesDown)];
    return `| ${[nameOf(row), workers, seed, roots, first, kB(downOf(row)), end, `${last.toFixed(2)} s`, `${(1000 * cpu).toFixed(0)} ms`, `${heap.toFixed(1)} MB`].join(' | ')} |`;
  });
  return [
    '| run | workers | seed | roots | first round | between | last | certificate | processor | heap |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...lines,
  ].join('\n');
}

const logAt = (value: number, least: number, most: number): number =>
  Math.log(value / least) / Math.log(most / least);
const x = (workers: number): number =>
  PLOT.left + (PLOT.right - PLOT.left) * logAt(workers, LEAST.workers, MOST.workers);
const y = (bytes: number): number =>
  PLOT.bottom - (PLOT.bottom - PLOT.top) * logAt(bytes, LEAST.bytes, MOST.bytes);

function gridLines(): readonly string[] {
  const across = [100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000].flatMap((bytes) => [
    `<line x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(bytes)}" y2="${y(bytes)}" stroke="#eaeef2"/>`,
    `<text x="${PLOT.left - 8}" y="${y(bytes) + 4}" text-anchor="end">${bytes / 1e6} MB</text>`,
  ]);
  const down = [16, 32, 64, 128, 256, 512, 1000, 3000].flatMap((workers) => [
    `<line x1="${x(workers)}" x2="${x(workers)}" y1="${PLOT.top}" y2="${PLOT.bottom}" stroke="#d0d7de"/>`,
    `<text x="${x(workers)}" y="${PLOT.bottom + 18}" text-anchor="middle">${workers}</text>`,
  ]);
  return [...across, ...down];
}

/** One line for each way to run, points in order of their number of workers. */
function renderPicture(rows: readonly ScaleRow[]): string {
  const names = [...new Set(rows.map(nameOf))];
  const lines = names.flatMap((name, i) => {
    const color = COLORS[i % COLORS.length]!;
    const own = rows.filter((row) => nameOf(row) === name).sort((a, b) => a.workers - b.workers);
    const at = own.map((row) => ({ cx: x(row.workers), cy: y(downOf(row)) }));
    const path = at.map(({ cx, cy }) => `${cx.toFixed(1)},${cy.toFixed(1)}`).join(' ');
    const end = at.at(-1)!;
    return [
      `<polyline points="${path}" fill="none" stroke="${color}" stroke-width="2"/>`,
      ...at.map(({ cx, cy }) => `<circle cx="${cx}" cy="${cy}" r="4.5" fill="${color}"/>`),
      `<text x="${end.cx + 10}" y="${end.cy + LABEL_DOWN[i % LABEL_DOWN.length]!}" font-size="11">${name}</text>`,
    ];
  });
  const words =
    'workers, against what comes to each of them in a round between the first and the last';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE.width} ${SIZE.height}" width="${SIZE.width}" height="${SIZE.height}" role="img">`,
    '<title>Workers against bytes that come to each of them in a round</title>',
    `<rect width="${SIZE.width}" height="${SIZE.height}" fill="#ffffff"/>`,
    `<g font-family="${FONT}" font-size="12" fill="#1f2328">`,
    ...gridLines(),
    ...lines,
    `<text x="${PLOT.right}" y="${PLOT.bottom + 38}" text-anchor="end">${words}</text>`,
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

const rows = readScale();
console.log(renderTable(rows));
const [file] = process.argv.slice(2);
if (file) writeFileSync(file, renderPicture(rows.filter(({ churn }) => churn === 0)));
