/**
 * The finished rows of `npm run bench:compression` as a table on stdout and, where a file is named, a picture: bytes
 * per worker and round against validation loss.
 *
 *   npm run bench:frontier -- docs/assets/frontier.svg
 */
import { writeFileSync } from 'node:fs';
import { combineSettings, type PartialSettings, presets, type Settings } from 'nostrain/run';
import { readFrontier } from './frontier/rows.ts';

const SIZE = { width: 760, height: 420 };
const PLOT = { left: 56, right: 740, top: 24, bottom: 372 };
const FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";

/** What others say that a worker sends of each parameter in a round, in bits; their losses are of other models. */
const FIELD = [
  { who: 'Covenant-72B', bits: 0.219 },
  { who: 'INTELLECT-1', bits: 8 },
] as const;
const PARAMETERS = 834_048;

/** One setting, over all its seeds. */
interface Point {
  readonly settings: string;
  /** The same, in few words. */
  readonly name: string;
  readonly schedule: string;
  readonly optimizer: string;
  readonly workers: number;
  readonly bytes: number;
  readonly losses: readonly number[];
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

const UNUSED = { run: 'bench', relay: [], model: 'char-gpt' } as const;

/** With what the preset makes of those that were not given. */
const settingsOf = (given: PartialSettings): Settings =>
  combineSettings(presets['char-gpt'], { ...UNUSED, ...given });

function readPoints(): readonly Point[] {
  const points = new Map<string, Point>();
  for (const row of readFrontier()) {
    const { seed: _, ...given } = JSON.parse(row.label) as Record<string, unknown>;
    const settings = settingsOf(given);
    const { rounds, innerSteps, optimizer } = settings;
    const { workers = 4, rounds: __, innerSteps: ___, optimizer: ____, ...rest } = given;
    const key = JSON.stringify(given);
    const losses = [...(points.get(key)?.losses ?? []), row.loss];
    points.set(key, {
      settings: describe(rest),
      name: nameOf(rest, settings),
      schedule: `${rounds} × ${innerSteps}`,
      optimizer,
      workers: Number(workers),
      bytes: Number(workers) === 1 ? 0 : row.bytes,
      losses,
    });
  }
  return [...points.values()].sort((a, b) => a.bytes - b.bytes || mean(a.losses) - mean(b.losses));
}

/** `owners 1, packing int8` of the settings that are not the default. */
const describe = (settings: Record<string, unknown>): string =>
  Object.entries(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ') || 'default';

/** What is sent, in few words. */
function nameOf(given: Readonly<Record<string, unknown>>, settings: Settings): string {
  if (given.moments === 'reset') return "the reference's recipe";
  const { owners, fragments, packing, residual, outerLearningRate, momentum } = settings;
  const isDefault = Object.keys(given).length === 0;
  const words = [
    fragments === 1 ? 'all' : `1/${fragments}`,
    owners === 0 ? 'of everybody' : `of ${owners}`,
    String(packing) === 'nstr' ? `top ${given.topk}` : String(packing),
    ...(momentum > 0 ? [`step ${outerLearningRate}, momentum ${momentum}`] : []),
    ...(residual === 'none' ? ['no residual'] : []),
    ...(given.finalShare === 0 ? ['rate to 0'] : []),
  ];
  return isDefault ? 'default' : words.join(', ');
}

/** Where words stand, and how many letters they have. */
interface Words {
  readonly x: number;
  readonly y: number;
  readonly length: number;
}

/** Heights of words beside these points, moved apart where they would overlap. */
function avoidOverlap(points: readonly Words[]): readonly number[] {
  const placed: Words[] = [];
  const heights = new Map<number, number>();
  const order = points.map((_, i) => i).sort((a, b) => points[a]!.y - points[b]!.y);
  for (const i of order) {
    const { x, y, length } = points[i]!;
    const isNear = (other: Words): boolean =>
      other.x - x < 6 * length && x - other.x < 6 * other.length;
    const height = Math.max(y, ...placed.filter(isNear).map((other) => other.y + 12));
    placed.push({ x, y: height, length });
    heights.set(i, height);
  }
  return points.map((_, i) => heights.get(i)!);
}

function renderTable(points: readonly Point[]): string {
  const lines = points.map(({ settings, schedule, optimizer, workers, bytes, losses }) => {
    const size = bytes === 0 ? '–' : `${(bytes / 1000).toFixed(1)} kB`;
    const seeds = losses.map((loss) => loss.toFixed(3)).join(', ');
    return `| ${workers} × ${schedule} | ${optimizer} | ${settings} | ${size} | ${seeds} |`;
  });
  return [
    '| workers, rounds, steps | optimizer | settings | payload | validation loss, one per seed |',
    '| --- | --- | --- | --- | --- |',
    ...lines,
  ].join('\n');
}

const COLORS: Readonly<Record<string, string>> = { adamw: '#6e7781', muon: '#0969da' };

/** Points over a logarithmic axis of bytes; circles are many short rounds, squares few long ones. */
function renderPicture(all: readonly Point[]): string {
  const points = all.filter(({ bytes }) => bytes > 0);
  const losses = points.map((point) => mean(point.losses));
  const [low, high] = [Math.min(...losses) - 0.12, Math.max(...losses) + 0.05];
  const [least, most] = [20_000, 4_000_000];
  const x = (bytes: number): number =>
    PLOT.left + ((PLOT.right - PLOT.left) * Math.log(bytes / least)) / Math.log(most / least);
  const y = (loss: number): number =>
    PLOT.bottom - ((PLOT.bottom - PLOT.top) * (loss - low)) / (high - low);
  const grid: string[] = [];
  for (const bytes of [50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000]) {
    grid.push(
      `<line x1="${x(bytes)}" x2="${x(bytes)}" y1="${PLOT.top}" y2="${PLOT.bottom}" stroke="#d0d7de"/>`,
      `<text x="${x(bytes)}" y="${PLOT.bottom + 18}" text-anchor="middle">${bytes / 1000} kB</text>`,
    );
  }
  for (let loss = Math.ceil(low * 20) / 20; loss <= high; loss += 0.05) {
    grid.push(
      `<line x1="${PLOT.left}" x2="${PLOT.right}" y1="${y(loss)}" y2="${y(loss)}" stroke="#eaeef2"/>`,
      `<text x="${PLOT.left - 8}" y="${y(loss) + 4}" text-anchor="end">${loss.toFixed(2)}</text>`,
    );
  }
  for (const { who, bits } of FIELD) {
    const at = x((bits * PARAMETERS) / 8).toFixed(1);
    grid.push(
      `<line x1="${at}" x2="${at}" y1="${PLOT.top}" y2="${PLOT.bottom}" stroke="#8250df" stroke-dasharray="4 3"/>`,
      `<text x="${at}" y="${PLOT.top - 4}" font-size="11" fill="#8250df">${who}: ${bits} bits</text>`,
    );
  }
  const heights = avoidOverlap(
    points.map(({ name, bytes, losses: seeds }) => ({
      ...{ x: x(bytes), y: y(mean(seeds)), length: name.length },
    })),
  );
  const marks = points.flatMap(({ name, schedule, optimizer, bytes, losses: seeds }, i) => {
    const [cx, cy, fill] = [x(bytes), y(mean(seeds)), COLORS[optimizer] ?? '#000'];
    const mark = schedule.startsWith('5 ')
      ? `<rect x="${cx - 5}" y="${cy - 5}" width="10" height="10" fill="${fill}"/>`
      : `<circle cx="${cx}" cy="${cy}" r="5.5" fill="${fill}"/>`;
    return [mark, `<text x="${cx + 9}" y="${heights[i]! + 4}" font-size="11">${name}</text>`];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE.width} ${SIZE.height}" width="${SIZE.width}" height="${SIZE.height}" role="img">`,
    '<title>Bytes per worker and round against validation loss</title>',
    `<rect width="${SIZE.width}" height="${SIZE.height}" fill="#ffffff"/>`,
    `<g font-family="${FONT}" font-size="12" fill="#1f2328">`,
    ...grid,
    ...marks,
    `<text x="${PLOT.right}" y="${PLOT.bottom + 38}" text-anchor="end">payload per worker and round; blue: muon, gray: adamw; circles: 20 × 25 steps, squares: 5 × 100; dashed: what others send</text>`,
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

const points = readPoints();
console.log(renderTable(points));
const [file] = process.argv.slice(2);
if (file) writeFileSync(file, renderPicture(points));
