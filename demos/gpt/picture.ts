/**
 * Draws the last screen of a demo as an SVG that looks like a terminal.
 *
 *   npm run picture                             # plays `nostrain demo gpt` and draws docs/assets/demo.svg
 *   npm run picture -- --from DIR --to FILE     # draws a run of `nostrain demo gpt --dir DIR`
 *
 * DIR has one `log.ndjson` per worker. An NDJSON file of events with the worker in `name` works too.
 */
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { RunEvent } from 'nostrain/certified';
import { createView, fold } from '../../src/dashboard/view.ts';
import { renderLive } from '../../src/terminal/render/live.ts';

type Recorded = RunEvent & { readonly name: string; readonly at?: number };

const TITLE = 'nostrain demo gpt';
const COLUMNS = 96;
const CELL = { width: 8.4, height: 19 };
const MARGIN = 16;
const TITLE_BAR = 34;
const FONT =
  "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** Fill by SGR code; 1 is bold and 2 is dim. */
const COLORS: Readonly<Record<string, string>> = {
  0: '#c9d1d9',
  1: '#f0f6fc',
  2: '#8b949e',
  31: '#ff7b72',
  32: '#56d364',
  33: '#e3b341',
  36: '#39c5cf',
};

/** Reads all events of a recording, sorted by time. */
function readRecording(path: string): readonly Recorded[] {
  const files = statSync(path).isDirectory() ? logsIn(path) : [{ name: 'worker', file: path }];
  const events = files.flatMap(({ name, file }) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line): Recorded => ({ name, ...JSON.parse(line) })),
  );
  return events.sort((a, b) => (a.at ?? 0) - (b.at ?? 0));
}

const logsIn = (dir: string) =>
  readdirSync(dir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => ({ name, file: join(dir, name, 'log.ndjson') }));

/** Returns the final frame of the live view over a recording. */
export function finalFrame(events: readonly Recorded[], title: string): readonly string[] {
  const names = [...new Set(events.map(({ name }) => name))].sort();
  const view = events.reduce((seen, event) => fold(seen, event.name, event), createView(names));
  const shown = { ...view, notices: [] };
  return renderLive(shown, { title, columns: COLUMNS, color: true });
}

/** Returns an SVG of a terminal window with these lines; SGR colors become fills. */
export function drawTerminal(lines: readonly string[], title: string): string {
  const width = Math.ceil(COLUMNS * CELL.width + 2 * MARGIN);
  const height = TITLE_BAR + lines.length * CELL.height + MARGIN;
  const rows = lines.map((line, i) => drawLine(line, TITLE_BAR + (i + 0.8) * CELL.height));
  const buttons = ['#ff5f57', '#febc2e', '#28c840'].map(
    (fill, i) => `<circle cx="${MARGIN + 6 + 20 * i}" cy="17" r="6" fill="${fill}"/>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}"`,
    `  width="${width}" height="${height}" role="img">`,
    `<title>${escapeXml(title)}</title>`,
    `<rect width="${width}" height="${height}" rx="10" fill="#0d1117" stroke="#30363d"/>`,
    ...buttons,
    `<g font-family="${FONT}" font-size="14">`,
    ...rows.flat(),
    '</g>',
    '</svg>',
    '',
  ].join('\n');
}

/** Returns one `text` element per color, positioned and stretched to its cells in any font. */
function drawLine(line: string, y: number): readonly string[] {
  const elements: string[] = [];
  let column = 0;
  let style = '0';
  // split with a group: texts at even indices, SGR codes at odd ones
  for (const [i, part] of line.split(SGR).entries()) {
    if (i % 2 === 1) {
      style = part;
      continue;
    }
    const text = part.trim();
    if (text !== '') {
      const x = MARGIN + (column + part.length - part.trimStart().length) * CELL.width;
      const length = [...text].length * CELL.width;
      const weight = style === '1' ? ' font-weight="bold"' : '';
      elements.push(
        `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" textLength="${length.toFixed(1)}" ` +
          `fill="${COLORS[style]}"${weight} ${SPACES}>${escapeXml(text)}</text>`,
      );
    }
    column += [...part].length;
  }
  return elements;
}

/** Preserves spaces. It is set on every text, since browsers reset an inherited `white-space` at `<text>`. */
const SPACES = 'xml:space="preserve" style="white-space:pre"';

const SGR = new RegExp(`${String.fromCharCode(27)}\\[([0-9]+)m`);

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Plays the demo into a new folder and returns it. */
function playDemo(): string {
  const dir = mkdtempSync(join(tmpdir(), 'nostrain-picture-'));
  const { status } = spawnSync('npm', ['start', '--', '--dir', dir], { stdio: 'inherit' });
  if (status !== 0) throw new Error(`the demo exited with ${status}; its folder is ${dir}`);
  return dir;
}

function main(args: string[]): void {
  const { values } = parseArgs({
    args,
    options: { from: { type: 'string' }, to: { type: 'string', default: 'docs/assets/demo.svg' } },
  });
  const { from = playDemo(), to } = values;
  const lines = finalFrame(readRecording(from), TITLE);
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, drawTerminal(lines, TITLE));
  console.log(`${to}: ${lines.length} lines from ${from}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
