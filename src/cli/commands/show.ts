/** `nostrain show`: shows one run on this machine: loss curve, rounds, model file, and a sample of its text. */

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { safe, safeLine } from '../../base/errors.ts';
import { formatBytes, formatCount, formatLoss, formatShare } from '../../base/numbers.ts';
import { findLocalRun, type LocalRun, withHistory } from '../../node/files/local-runs.ts';
import { type Scalar, tensorboardFile } from '../../node/files/tensorboard.ts';
import { formOf } from '../../run/data-forms.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import { defineCommand } from '../../terminal/command.ts';
import { text, toggle } from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut, writeOutput, writeResult } from '../../terminal/output.ts';
import { plot } from '../../terminal/render/forecast.ts';
import { clip, widthOf, wrap } from '../../terminal/render/text.ts';
import {
  curveOf,
  formatAge,
  lossAfter,
  modelFileOf,
  roundRow,
  sampleCommand,
  summaryOf,
} from './runs.ts';

export const show = defineCommand({
  name: 'show',
  help: 'show a run on this machine: loss curve, rounds, model file',
  args: [['<run>', 'name of a run (`nostrain runs` lists them), or its folder']],
  flags: {
    html: text('<file>', 'write a self-contained HTML page'),
    csv: text('<file>', 'write one CSV line per round; - for stdout'),
    tensorboard: text('<folder>', 'write an event file for TensorBoard to this folder'),
    json: toggle('print JSON'),
  },
  async run({ html, csv, tensorboard, json }, { args: [name] }) {
    const localRun = await findLocalRun(name, undefined, { anyWorker: true });
    const run = await withHistory(localRun);
    if (html !== undefined) await writeResult(renderPage(run), html);
    if (csv !== undefined) await writeResult(toCsv(run), csv === '-' ? undefined : csv);
    if (json) writeOut(asJson(documentOf(run)));
    const events = tensorboard && (await writeTensorboard(run, tensorboard));
    for (const file of [html, csv, events]) {
      if (file !== undefined && file !== '-') writeNote(`written to ${file}`);
    }
    const isWritten = [html, csv, tensorboard].some((file) => file !== undefined);
    if (!json && !isWritten) writeOut(`${words(run).join('\n')}\n`);
  },
});

const documentOf = (run: LocalRun) => ({
  ...summaryOf(run),
  lossBefore: Number.isFinite(run.lossBefore) ? run.lossBefore : undefined,
  sample: sampleOf(run),
  history: run.history.map(roundRow),
});

const sampleOf = ({ history }: LocalRun): string | undefined =>
  history.findLast(({ sample }) => sample !== undefined)?.sample;

const MOST_COLUMNS = 100;
/** Lines of the plot and of the sample: as many as look good, or fewer to leave room for rounds. */
const PLOT = { most: 8, tight: 5 };
const SAMPLE = { most: 8, tight: 3 };

/** Returns what is known of the run: as much as fits on the terminal, or everything if stdout is not one. */
function words(run: LocalRun): readonly string[] {
  const columns = Math.min(MOST_COLUMNS, process.stdout.columns || 80) - 1;
  const all = linesOf(run, columns, { plot: PLOT.most, sample: Number.POSITIVE_INFINITY });
  // the last line of the screen is the prompt
  const most = process.stdout.isTTY ? (process.stdout.rows || 24) - 1 : Number.POSITIVE_INFINITY;
  if (heightOf(all, columns) <= most) return all;
  const isTall = most > 40;
  const limits = isTall
    ? { plot: PLOT.most, sample: SAMPLE.most }
    : { plot: PLOT.tight, sample: SAMPLE.tight };
  const { length } = run.history;
  const spare = most - heightOf(linesOf(run, columns, { ...limits, rounds: 0 }), columns);
  return linesOf(run, columns, { ...limits, rounds: Math.min(length, Math.max(1, spare)) });
}

/** Returns the number of terminal rows of lines that may wrap. */
const heightOf = (lines: readonly string[], columns: number): number =>
  lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0);

function factsOf({ kind, state, model, parameters, rounds, played }: LocalRun): readonly string[] {
  const size = parameters === undefined ? [] : [`${formatCount(parameters)} parameters`];
  const far = `${played}${rounds === undefined ? '' : ` of ${rounds}`} rounds`;
  return [kind, ...(model === undefined ? [] : [model]), ...size, state, far];
}

interface ShowLimits {
  readonly plot: number;
  readonly sample: number;
  /** Newest rounds in the table; default all. */
  readonly rounds?: number;
}

function linesOf(run: LocalRun, columns: number, limits: ShowLimits): readonly string[] {
  const { name, parameters, worker, lossBefore } = run;
  const started = lossBefore === undefined ? [] : [`loss at the start  ${formatLoss(lossBefore)}`];
  const sample = sampleOf(run);
  const text = sample === undefined ? [] : wrap(safe(sample).trim(), columns - 4);
  const command = sampleCommand(run);
  const changed = formatAge(Date.now() - run.changedAtMs);
  return [
    safeLine(`${name}  ${factsOf(run).join(' · ')}`),
    '',
    ...plot(curveOf(run), columns, limits.plot),
    ...started,
    ...table(run, limits.rounds).map((line) => clip(line, columns)),
    ...(text.length === 0
      ? []
      : [
          '',
          'the shared model writes',
          ...text.slice(0, limits.sample).map((line) => `  │ ${line}`),
        ]),
    '',
    ...(parameters === undefined ? [] : [`model   ${modelFileOf(worker)}`]),
    `folder  ${run.dir} (${formatBytes(run.bytes)}, changed ${changed})`,
    ...(command === undefined ? [] : [`${LEADS[formOf({ model: run.model! })]}: ${command}`]),
  ];
}

type Row = ReturnType<typeof roundRow>;

/** The columns of a table of rounds: heading and cell. */
const COLUMNS: readonly (readonly [heading: string, cell: (row: Row) => string])[] = [
  ['round', ({ index }) => `${roundNumber(index)}`],
  ['validation', ({ validationLoss }) => formatLoss(validationLoss)],
  ['right', ({ accuracy }) => formatShare(accuracy)],
  ['training', ({ trainingLoss }) => formatLoss(trainingLoss)],
  ['counted', ({ counted }) => `${counted}`],
  ['refused', ({ refused }) => `${refused}`],
  ['sent', ({ eventBytes }) => formatBytes(eventBytes)],
  ['time', ({ seconds }) => `${seconds.toFixed(0)} s`],
  ['ended by', ({ result }) => result],
  ['model', ({ model }) => model.slice(0, 8)],
];

/** Returns headings and cells of the newest rounds; shares of right answers only where there are some. */
function cellsOf({ history }: LocalRun, most = history.length): readonly (readonly string[])[] {
  const isRight = history.some(({ accuracy }) => accuracy !== undefined);
  const shown = COLUMNS.filter(([heading]) => isRight || heading !== 'right');
  const rows = history.slice(history.length - most).map(roundRow);
  return [
    shown.map(([heading]) => heading),
    ...rows.map((row) => shown.map(([, cell]) => cell(row))),
  ];
}

function table(run: LocalRun, most?: number): readonly string[] {
  const { history, lossUnit } = run;
  if (history.length === 0) return ['no round is finished yet'];
  const cells = cellsOf(run, most).map((row) => row.slice(0, -1));
  const widths = cells[0]!.map((_, i) => Math.max(...cells.map((row) => row[i]!.length)));
  const lines = cells.map((row) => row.map((cell, i) => cell.padStart(widths[i]!)).join('  '));
  const unit = lossUnit === undefined ? [] : [`losses are ${lossUnit}`];
  const hidden = history.length + 1 - cells.length;
  const more = hidden === 0 ? [] : [`--csv - prints the ${hidden} earlier rounds too`];
  const about = [...unit, ...more].join('; ');
  return ['', ...(about === '' ? [] : [about]), ...lines];
}

/** Text before the sample command, by form of data. */
const LEADS = {
  tokens: 'write more text with',
  rows: 'see it with',
  series: 'draw its forecast with',
  images: 'have it guess pictures with',
} as const;

const toCsv = ({ history }: LocalRun): string => {
  const names = ['validationLoss', 'trainingLoss', 'counted', 'refused'] as const;
  const more = [
    'payloadBytes',
    'eventBytes',
    'secondsTraining',
    'secondsWaiting',
    'seconds',
  ] as const;
  const all = [...names, ...more, 'result', 'model', 'accuracy'] as const;
  const rows = history.map((round) => {
    const row = roundRow(round);
    return [roundNumber(round.index), ...all.map((name) => row[name] ?? '')].join(',');
  });
  return `${[`round,${all.join(',')}`, ...rows].join('\n')}\n`;
};

/** Writes losses and sizes by round. Round times are not stored, so all rounds have the time of the last change. */
async function writeTensorboard(run: LocalRun, folder: string): Promise<string> {
  const wallTime = Math.floor(run.changedAtMs / 1000);
  const scalars = run.history.flatMap((round): readonly Scalar[] => {
    const numbers = {
      'loss/training': round.trainingLoss,
      'loss/validation': round.validationLoss,
      'loss/bits_per_byte': round.bitsPerByte,
      'accuracy/validation': round.accuracy,
      'round/counted': round.accepted.length,
      'round/refused': round.refused.length,
      'round/seconds': round.seconds,
      'round/seconds_waiting': round.secondsWaiting,
      'bytes/payload': round.payloadBytes,
      'bytes/events': round.eventBytes,
    };
    return Object.entries(numbers).flatMap(([tag, value]) =>
      value === undefined || !Number.isFinite(value)
        ? []
        : [{ tag, value, step: roundNumber(round.index), wallTime }],
    );
  });
  const file = join(folder, `events.out.tfevents.${wallTime}.nostrain`);
  // a problem with the folder is reported when the file is written
  await mkdir(folder, { recursive: true }).catch(() => undefined);
  await writeOutput(file, tensorboardFile(scalars));
  return file;
}

const STYLE = `
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 } .facts { opacity: .7; margin: 0 0 1.5rem }
svg { width: 100%; height: auto } polyline { fill: none; stroke: #2a7de1; stroke-width: 2 }
.axis { stroke: currentColor; opacity: .3 } text { font-size: 12px; fill: currentColor }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .15rem .5rem; border-bottom: 1px solid #8884 }
pre { white-space: pre-wrap; border-left: 3px solid #8888; padding-left: 1rem }
`;

function renderPage(run: LocalRun): string {
  const { name, lossUnit } = run;
  const facts = [...factsOf(run), ...(lossUnit === undefined ? [] : [`losses are ${lossUnit}`])];
  const sample = sampleOf(run);
  const wrote =
    sample === undefined
      ? ''
      : `<h2>The shared model writes</h2>\n<pre>${inHtml(sample.trim())}</pre>\n`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${inHtml(name)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${inHtml(name)}</h1>
<p class="facts">${inHtml(facts.join(' · '))}</p>
${curve(run)}${htmlTable(run)}${wrote}</body>
</html>
`;
}

const WIDTH = 800;
const HEIGHT = 240;
const MARGIN = 60;

/** Draws loss over rounds as SVG; empty if there are fewer than two points. */
function curve({ history }: LocalRun): string {
  const points = history
    .map((round) => ({ round: round.index, loss: lossAfter(round) }))
    .filter(({ loss }) => Number.isFinite(loss));
  if (points.length < 2) return '';
  const losses = points.map(({ loss }) => loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const [first, last] = [points[0]!.round, points.at(-1)!.round];
  const x = (round: number) => MARGIN + ((round - first) / (last - first)) * (WIDTH - MARGIN - 10);
  const y = (loss: number) => 10 + ((high - loss) / (high - low || 1)) * (HEIGHT - 40);
  const line = points
    .map(({ round, loss }) => `${x(round).toFixed(1)},${y(loss).toFixed(1)}`)
    .join(' ');
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="loss over rounds">
<line class="axis" x1="${MARGIN}" y1="${HEIGHT - 25}" x2="${WIDTH - 10}" y2="${HEIGHT - 25}"/>
<text x="${MARGIN - 8}" y="${(y(high) + 4).toFixed(0)}" text-anchor="end">${formatLoss(high)}</text>
<text x="${MARGIN - 8}" y="${(y(low) + 4).toFixed(0)}" text-anchor="end">${formatLoss(low)}</text>
<text x="${MARGIN}" y="${HEIGHT - 8}">${roundName(first)}</text>
<text x="${WIDTH - 10}" y="${HEIGHT - 8}" text-anchor="end">${roundName(last)}</text>
<polyline points="${line}"/>
</svg>
`;
}

function htmlTable(run: LocalRun): string {
  const lines = cellsOf(run).map((row, i) => {
    const tag = i === 0 ? 'th' : 'td';
    return `<tr>${row.map((cell) => `<${tag}>${inHtml(cell)}</${tag}>`).join('')}</tr>`;
  });
  return `<table>\n${lines.join('\n')}\n</table>\n`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};
const inHtml = (text: string): string => text.replace(/[&<>"]/g, (sign) => ENTITIES[sign]!);
