/** One self-contained HTML page of a run: curve, rounds and text, no script, nothing loaded from elsewhere. */

import { formatBytes, formatCount, formatLoss, formatShare } from '../../../base/numbers.ts';
import type { LocalRun } from '../../../node/files/local-runs.ts';
import { roundName, roundNumber } from '../../../run/round-name.ts';
import { lossAfter, roundRow } from './words.ts';

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

/** The page. */
export function renderPage(run: LocalRun): string {
  const { name, kind, state, model, parameters, rounds, played, history, lossUnit } = run;
  const facts = [
    kind,
    model ?? '',
    parameters === undefined ? '' : `${formatCount(parameters)} parameters`,
    `${played}${rounds === undefined ? '' : ` of ${rounds}`} rounds`,
    state,
    lossUnit === undefined ? '' : `losses are ${lossUnit}`,
  ].filter((fact) => fact !== '');
  const sample = history.findLast((round) => round.sample !== undefined)?.sample;
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
${curve(run)}${table(run)}${wrote}</body>
</html>
`;
}

const WIDTH = 800;
const HEIGHT = 240;
const MARGIN = 60;

/** Loss over rounds; nothing before there are two points. */
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

const HEADINGS = [
  'round',
  'validation',
  'right',
  'training',
  'counted',
  'refused',
  'sent',
  'time',
  'result',
  'model',
];

function table({ history }: LocalRun): string {
  const rows = history.map((round) => {
    const { counted, refused, eventBytes, seconds, result, model } = roundRow(round);
    const cells = [
      roundNumber(round.index),
      formatLoss(round.validationLoss ?? Number.NaN),
      formatShare(round.accuracy),
      formatLoss(round.trainingLoss),
      counted,
      refused,
      formatBytes(eventBytes),
      `${seconds.toFixed(0)} s`,
      inHtml(result),
      inHtml(model.slice(0, 8)),
    ];
    return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
  });
  const heading = HEADINGS.map((each) => `<th>${each}</th>`).join('');
  return `<table>\n<tr>${heading}</tr>\n${rows.join('\n')}\n</table>\n`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
};
const inHtml = (text: string): string => text.replace(/[&<>"]/g, (sign) => ENTITIES[sign]!);
