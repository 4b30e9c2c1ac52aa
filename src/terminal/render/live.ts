/** A run on one screen: a row per worker, a row per finished round, what the shared model writes, what went wrong. */

import { safe, safeLine } from '../../base/safe-text.ts';
import { pointsOf } from '../../dashboard/curve.ts';
import {
  type Agreement,
  agreementOf,
  type RoundView,
  type View,
  type WorkerView,
} from '../../dashboard/view.ts';
import { roundName, roundNumber } from '../../run/round-name.ts';
import { bar, sparkline } from './bars.ts';
import { formatBytes, formatCount, formatLoss, formatRate } from './numbers.ts';
import { clip, createPaint, type Paint, wrap } from './text.ts';

export interface LiveOptions {
  readonly title: string;
  readonly columns: number;
  /** Lines there is room for; without it everything is shown, a line of each round's text included. */
  readonly rows?: number;
  readonly color: boolean;
}

const BAR = 16;
const SPARKLINE = 32;
const SAMPLE_LINES = 8;
const NOTICES = 3;

/** Lines of at most `columns` characters. */
export function renderLive(view: View, options: LiveOptions): string[] {
  const { columns, rows, color } = options;
  const paint = createPaint(color);
  const head = [headline(view, options, paint), ...workerRows(view, columns, paint)];
  const tail = [...sampleLines(view, columns, paint), ...noticeLines(view, columns, paint)];
  const rounds = view.finished.map((round) => roundRow(view, round, columns, paint));
  if (rounds.length === 0) return within([...head, ...tail], rows);
  const heading = paint.dim(clip(ROUND_HEADING, columns));
  if (rows === undefined) {
    const told = view.finished.flatMap((round, i) => [
      rounds[i]!,
      ...roundSample(round, columns, paint),
    ]);
    return [...head, '', heading, ...told, ...tail];
  }
  const room = Math.max(1, rows - head.length - tail.length - 2);
  return within([...head, '', heading, ...rounds.slice(-room), ...tail], rows);
}

const within = (lines: string[], rows: number | undefined): string[] =>
  rows === undefined ? lines : lines.slice(0, rows);

function headline(view: View, { title, columns }: LiveOptions, paint: Paint): string {
  const round = Math.min(view.rounds - 1, ...view.workers.map(({ round }) => round));
  const parts = [
    view.workers.length === 1 ? '1 worker' : `${view.workers.length} workers`,
    ...(view.parameters === 0 ? [] : [`${formatCount(view.parameters)} parameters`]),
    ...(view.rounds === 0 ? [] : [`${roundName(round)} of ${view.rounds}`]),
  ];
  const shown = clip(safeLine(title), columns);
  return paint.bold(shown) + clip(`  ${parts.join(' · ')}`, columns - [...shown].length);
}

function workerRows(view: View, columns: number, paint: Paint): readonly string[] {
  const widest = Math.max(...view.workers.map(({ name }) => [...name].length));
  const unit = view.task.includes('gpt') ? 'tok/s' : 'ex/s';
  return view.workers.map((worker) => {
    const name = clip(safeLine(worker.name), 16).padEnd(Math.min(16, widest));
    const plain = `  ${name}  ${doing(worker)}  ${numbers(worker, unit)}`;
    const line = clip(plain, columns);
    const left = Math.min(SPARKLINE, columns - [...line].length - 2);
    const curve = left < 4 ? '' : `  ${sparkline(pointsOf(worker.losses), left)}`;
    return colorOf(worker, paint)(line) + paint.cyan(curve);
  });
}

const colorOf = ({ phase }: WorkerView, paint: Paint): ((text: string) => string) => {
  if (phase === 'failed') return paint.red;
  return phase === 'done' ? paint.green : (text) => text;
};

/** A bar while it trains, words otherwise: always as wide. */
function doing(worker: WorkerView): string {
  const { phase, step, steps, have, want, moved } = worker;
  const chunks = moved && `${moved.have}/${moved.of}`;
  const width = BAR + 10;
  const of = want === undefined ? `${have}` : `${have}/${want}`;
  switch (phase) {
    case 'training':
      return clip(`${bar(step / steps, BAR)} ${`${step}/${steps}`.padStart(9)}`, width).padEnd(
        width,
      );
    case 'joining':
      return clip(`waiting for workers ${of}`, width).padEnd(width);
    case 'collecting':
      return clip(chunks ? `pulling chunks ${chunks}` : `collecting gradients ${of}`, width).padEnd(
        width,
      );
    case 'sending':
      return clip(chunks ? `sending chunks ${chunks}` : 'sending its gradient', width).padEnd(
        width,
      );
    case 'failed':
      return clip(`failed: ${safeLine(worker.failure ?? '')}`, width).padEnd(width);
    case 'starting':
      return (worker.round === 0 ? 'starting' : 'between rounds').padEnd(width);
    case 'done':
      return 'done'.padEnd(width);
  }
}

function numbers({ loss, tokensPerSecond }: WorkerView, unit: string): string {
  const shownLoss = loss === undefined ? '' : formatLoss(loss);
  const rate = tokensPerSecond === undefined ? '' : `${formatRate(tokensPerSecond)} ${unit}`;
  return `${shownLoss.padStart(8)} ${rate.padStart(12)}`;
}

const ROUND_HEADING = '  round  validation    training  per worker  counted  refused    time  bits';

function roundRow(view: View, round: RoundView, columns: number, paint: Paint): string {
  const { validationLoss, trainingLoss, eventBytes, accepted, refused, seconds, certified } = round;
  const cells = [
    `${roundNumber(round.index)}`.padStart(7),
    (validationLoss === undefined ? '-' : formatLoss(validationLoss)).padStart(10),
    formatLoss(trainingLoss).padStart(10),
    formatBytes(eventBytes).padStart(10),
    `${accepted}`.padStart(7),
    `${refused}`.padStart(7),
    `${seconds.toFixed(0)} s`.padStart(6),
  ];
  const line = clip(cells.join('  '), columns);
  const [mark, style] = MARKS[agreementOf(view, round)];
  const digest = round.digests.values().next().value ?? '';
  const how = certified ? `  ${certified.result} ${certified.signers.length}/${certified.of}` : '';
  const bits = clip(`  ${mark} ${digest.slice(0, 8)}${how}`, columns - [...line].length);
  return (refused > 0 ? paint.yellow(line) : line) + paint[style](bits);
}

const MARKS = {
  same: ['✓', 'green'],
  differ: ['✗ DIFFER', 'red'],
  open: ['…', 'dim'],
  alone: ['·', 'dim'],
} as const satisfies Record<Agreement, readonly [string, keyof Paint]>;

/** One line of what the model wrote after a round, to see it learn. */
function roundSample({ sample }: RoundView, columns: number, paint: Paint): readonly string[] {
  if (sample === undefined) return [];
  const line = safeLine(sample).trim().replace(/\s+/g, ' ');
  return [`         ${paint.dim(clip(line, Math.max(1, columns - 9)))}`];
}

function sampleLines({ finished }: View, columns: number, paint: Paint): readonly string[] {
  const last = finished.findLast(({ sample }) => sample !== undefined);
  if (last?.sample === undefined) return [];
  const lines = wrap(safe(last.sample).trim().replaceAll('\t', ' '), Math.max(1, columns - 4));
  return [
    '',
    paint.dim(clip(`  after ${roundName(last.index)} the shared model writes`, columns)),
    ...lines.slice(0, SAMPLE_LINES).map((line) => `  ${paint.dim('│')} ${line}`),
  ];
}

function noticeLines(view: View, columns: number, paint: Paint): readonly string[] {
  const notices = view.notices.slice(-NOTICES).map(({ name, message }) => {
    const from = name === '' || view.workers.length === 1 ? '' : `${name}: `;
    return paint.yellow(clip(safeLine(`  ${from}${message}`), columns));
  });
  return notices.length === 0 ? [] : ['', ...notices];
}
