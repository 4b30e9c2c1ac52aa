/** Renders finished rounds as a table; if it is too wide, the least important columns are dropped first. */

import { formatBytes, formatLoss, formatShare } from '../../base/numbers.ts';
import { type Agreement, agreementOf, type RoundView, type View } from '../../dashboard/view.ts';
import { roundNumber } from '../../run/ids.ts';
import { clip, type Paint, padStart, widthOf, wrap } from './text.ts';

export interface RoundTable {
  readonly heading: string;
  /** One line per finished round. */
  readonly rows: readonly string[];
  /** Meaning of the marks in the rows. */
  readonly legend: readonly string[];
}

interface Column {
  readonly heading: string;
  readonly width: number;
  /** Importance; columns with the lowest worth are dropped first. */
  readonly worth: number;
  cell(round: RoundView): string;
}

const GAP = 2;

/** Columns shown only for text models, and only for classifiers. */
const PER_BYTE = 'bits/byte';
const RIGHT = 'right';

const column = (heading: string, width: number, worth: number, cell: Column['cell']): Column => ({
  heading,
  width,
  worth,
  cell,
});

const COLUMNS: readonly Column[] = [
  column('round', 5, 9, ({ index }) => `${roundNumber(index)}`),
  column('validation', 10, 8, ({ validationLoss }) => formatLoss(validationLoss)),
  column(PER_BYTE, 9, 1, ({ bitsPerByte }) => formatLoss(bitsPerByte)),
  column(RIGHT, 7, 7, ({ accuracy }) => formatShare(accuracy)),
  column('training', 8, 4, ({ trainingLoss }) => formatLoss(trainingLoss)),
  column('per worker', 10, 3, ({ eventBytes }) => formatBytes(eventBytes)),
  column('counted', 7, 5, ({ accepted }) => `${accepted}`),
  column('refused', 7, 2, ({ refused }) => `${refused}`),
  column('time', 6, 6, ({ seconds }) => `${seconds.toFixed(0)} s`),
];

const MARKS = {
  same: ['✓', 'green', 'all hold the same model, bit for bit'],
  differ: ['✗', 'red', 'some workers have a different model'],
  open: ['…', 'dim', 'not all workers have reported yet'],
  alone: ['·', 'dim', 'no other worker to compare with'],
} as const satisfies Record<Agreement, readonly [string, keyof Paint, string]>;

/** Returns the mark, the first digits of the digest, and how a committee ended the round. */
const modelOf = (view: View, round: RoundView): readonly [string, keyof Paint] => {
  const [mark, style] = MARKS[agreementOf(view, round)];
  const { certified, digests } = round;
  const how = certified ? ` ${certified.result} ${certified.signers.length}/${certified.of}` : '';
  return [`${mark} ${(digests.values().next().value ?? '').slice(0, 8)}${how}`, style];
};

export function roundTable(view: View, columns: number, paint: Paint): RoundTable {
  const { finished } = view;
  const models = finished.map((round) => modelOf(view, round));
  const model = Math.max('model'.length, ...models.map(([text]) => widthOf(text)));
  const shown = fitting(finished, columns - model - GAP);
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => padStart(cell, shown[i]!.width + GAP)).join('');
  const heading = `${line(shown.map(({ heading }) => heading))}  model`;
  const rows = finished.map((round, i) => {
    const cells = line(shown.map(({ cell }) => cell(round)));
    const [text, style] = models[i]!;
    const numbers = clip(cells, columns);
    const painted = round.refused > 0 ? paint.yellow(numbers) : numbers;
    return painted + paint[style](clip(`  ${text}`, columns - widthOf(numbers)));
  });
  return {
    heading: paint.dim(clip(heading, columns)),
    rows,
    legend: legendOf(view, columns, paint),
  };
}

/** Returns the columns that fit; those that are empty in every round are dropped first. */
function fitting(finished: readonly RoundView[], columns: number): readonly Column[] {
  const isEmpty = ({ heading }: Column) =>
    (heading === 'refused' && finished.every(({ refused }) => refused === 0)) ||
    (heading === 'validation' &&
      finished.every(({ validationLoss }) => validationLoss === undefined));
  const isText = finished.some(({ bitsPerByte }) => bitsPerByte !== undefined);
  const isRight = finished.some(({ accuracy }) => accuracy !== undefined);
  let shown = COLUMNS.filter(
    ({ heading }) => (heading !== PER_BYTE || isText) && (heading !== RIGHT || isRight),
  );
  const width = () => shown.reduce((sum, column) => sum + column.width + GAP, 0);
  const worthOf = (column: Column) => (isEmpty(column) ? 0 : column.worth);
  while (width() > columns && shown.length > 1) {
    const least = Math.min(...shown.map(worthOf));
    shown = shown.filter((column) => worthOf(column) !== least);
  }
  return shown;
}

function legendOf(view: View, columns: number, paint: Paint): readonly string[] {
  const seen = new Set(view.finished.map((round) => agreementOf(view, round)));
  const parts = [...seen].map((each) => `${MARKS[each][0]} ${MARKS[each][2]}`);
  if (parts.length === 0) return [];
  const lines = wrap(parts.join('   '), Math.max(1, columns - 2));
  return lines.map((line) => paint.dim(`  ${line.trim()}`));
}
