/** Renders a run on one screen: workers, finished rounds, generated text, problems, and where the model is saved. */

import { safe, safeLine } from '../../base/errors.ts';
import { formatCount, plural } from '../../base/numbers.ts';
import { type RoundView, secondsLeft, type View } from '../../dashboard/view.ts';
import { roundName } from '../../run/ids.ts';
import { roundTable } from './round-table.ts';
import { clip, createPaint, type Paint, widthOf, wrap } from './text.ts';
import { workerRows } from './worker-rows.ts';

/** Where the shared model is saved after every round. */
export interface Saved {
  readonly folder: string;
  /** Command line that generates from the model; absent for models of rows. */
  readonly sample?: string;
}

export interface LiveOptions {
  readonly title: string;
  readonly columns: number;
  /** Maximum number of lines; without it everything is shown, including a line of each round's text. */
  readonly rows?: number;
  readonly color: boolean;
  /** Shown while the run is in progress. */
  readonly saved?: Saved;
}

const SAMPLE_LINES = 8;
const NOTICES = 3;
const NOTICE_LINES = 3;
/** From this many lines on, notices are not shortened. */
const SPACIOUS = 36;
/** Maximum rounds in the table while a sample is shown. */
const ROUNDS_BEFORE_SAMPLE = 6;

/** Returns lines of at most `columns` cells. */
export function renderLive(view: View, options: LiveOptions): string[] {
  const { columns, rows, color, saved } = options;
  const paint = createPaint(color);
  const most = rows === undefined ? Number.POSITIVE_INFINITY : Math.max(2, Math.floor(rows / 3));
  const head = [...headline(view, options, paint), ...workerRows(view, columns, most, paint)];
  const notices = noticeLines(view, columns, rows !== undefined && rows < SPACIOUS, paint);
  const sample = sampleLines(view, columns, paint);
  const table = roundTable(view, columns, paint);
  if (rows === undefined) {
    const entries = view.finished.flatMap((round, i) => [
      table.rows[i]!,
      ...roundSample(round, columns, paint),
    ]);
    const rounds = entries.length === 0 ? [] : ['', table.heading, ...entries, ...table.legend];
    return [...head, ...rounds, ...sample, ...notices];
  }
  const foot = [...savedLines(view, saved, columns, paint), ...notices];
  if (table.rows.length === 0) return [...head, ...foot].slice(0, rows);
  const around = ['', table.heading, ...table.legend];
  const free = rows - head.length - foot.length - around.length;
  const reserved = Math.min(table.rows.length, ROUNDS_BEFORE_SAMPLE);
  const text = sample.slice(0, Math.max(0, free - reserved));
  const shownText = text.length > 2 ? text : [];
  const shown = table.rows.slice(-Math.max(1, free - shownText.length));
  return [...head, '', table.heading, ...shown, ...table.legend, ...shownText, ...foot].slice(
    0,
    rows,
  );
}

/** Title and progress on one line, or on two if they do not fit. */
function headline(view: View, { title, columns }: LiveOptions, paint: Paint): readonly string[] {
  const shown = clip(safeLine(title), columns);
  const parts = factsOf(view);
  const whole = `  ${parts.join(' · ')}`;
  if (widthOf(shown) + widthOf(whole) <= columns) return [paint.bold(shown) + whole];
  while (parts.length > 1 && widthOf(`  ${parts.join(' · ')}`) > columns) parts.pop();
  return [paint.bold(shown), clip(`  ${parts.join(' · ')}`, columns)];
}

/** Facts in order of importance. */
function factsOf(view: View): string[] {
  const { workers, peers, rounds, parameters } = view;
  const round = Math.min(rounds - 1, ...workers.map((worker) => worker.round));
  const count = workers.length + peers.length;
  const away = peers.filter(
    (peer) => peer.state === 'away' && !(rounds > 0 && peer.round >= rounds),
  );
  return [
    ...(rounds === 0 ? [] : [`${roundName(round)} of ${rounds}`]),
    `${plural(count, 'worker')}${away.length === 0 ? '' : `, ${away.length} away`}`,
    ...(parameters === 0 ? [] : [`${formatCount(parameters)} parameters`]),
  ];
}

/** Formats a duration as `40 s`, `8 min` or `2 h 5 min`. */
function roughTime(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds / 10) * 10} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Time left, model folder and sample command; wrapped, because a clipped path is useless. */
function savedLines(
  view: View,
  saved: Saved | undefined,
  columns: number,
  paint: Paint,
): readonly string[] {
  const left = secondsLeft(view);
  if (left === undefined) return [];
  const entries = [
    ...(left > 0 ? [`about ${roughTime(left)} left`] : []),
    ...(saved === undefined ? [] : [`the model so far is in ${safeLine(saved.folder)}`]),
  ];
  const sample = saved?.sample && [`write more text with: ${safeLine(saved.sample)}`];
  const lines = [entries.join('; '), ...(sample ?? [])].filter((line) => line !== '');
  const wrapped = lines.flatMap((line) => wrap(line, Math.max(1, columns - 2)));
  return wrapped.length === 0 ? [] : ['', ...wrapped.map((line) => paint.dim(`  ${line}`))];
}

/** One line of the text generated after a round, to show progress. */
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

/** Shows the last notice on up to three lines; earlier ones too, or on one line each if there are few lines. */
function noticeLines(
  view: View,
  columns: number,
  isTight: boolean,
  paint: Paint,
): readonly string[] {
  const notices = view.notices.slice(-NOTICES);
  const lines = notices.flatMap(({ name, message }, i) => {
    const from = name === '' || view.workers.length === 1 ? '' : `${name}: `;
    const text = safeLine(`${from}${message}`);
    const most = isTight && i < notices.length - 1 ? 1 : NOTICE_LINES;
    const entries = wrap(text, Math.max(1, columns - 2));
    const rest = entries.slice(most - 1).join(' ');
    return [...entries.slice(0, most - 1), ...(entries.length < most ? [] : [rest])].map((line) =>
      paint.yellow(clip(`  ${line}`, columns)),
    );
  });
  return lines.length === 0 ? [] : ['', ...lines];
}
