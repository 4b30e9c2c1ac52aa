/** Renders one row per worker: workers of this screen in full, peers with what their events show. */

import { safeLine } from '../../base/errors.ts';
import { formatBytes, formatLoss, formatRate } from '../../base/numbers.ts';
import type { View } from '../../dashboard/view.ts';
import { type PeerView, pointsOf, type WorkerView } from '../../dashboard/worker-view.ts';
import { roundName, type WorkerId } from '../../run/ids.ts';
import { called } from '../../run/worker-names.ts';
import { bar, sparkline } from './forecast.ts';
import { clip, type Paint, padEnd, padStart, widthOf } from './text.ts';

interface Layout {
  readonly columns: number;
  readonly name: number;
  /** Cells of the progress bar, and of the activity column. */
  readonly bar: number;
  readonly doing: number;
  readonly hasBytes: boolean;
  readonly hasRate: boolean;
}

const LAYOUTS: readonly Layout[] = [
  { columns: 78, name: 16, bar: 12, doing: 25, hasBytes: true, hasRate: true },
  { columns: 55, name: 12, bar: 8, doing: 17, hasBytes: true, hasRate: false },
  { columns: 38, name: 12, bar: 0, doing: 14, hasBytes: false, hasRate: false },
  { columns: 0, name: 8, bar: 0, doing: 12, hasBytes: false, hasRate: false },
];

const SPARKLINE = 32;
const FEWEST_POINTS = 4;

interface Row {
  readonly name: string;
  readonly doing: string;
  readonly loss?: number | undefined;
  readonly sentBytes?: number | undefined;
  readonly rate?: string | undefined;
  readonly losses?: readonly number[];
  readonly style: 'red' | 'green' | 'yellow' | undefined;
  /** Rows with a higher rank are dropped first if there are too many. */
  readonly rank: number;
}

/** Returns at most `most` lines; the last one summarizes the rows that are left out. */
export function workerRows(
  view: View,
  columns: number,
  most: number,
  paint: Paint,
): readonly string[] {
  const layout = LAYOUTS.find((each) => columns >= each.columns)!;
  const all = [
    ...view.workers.map((worker) => rowOf(worker, view, layout)),
    ...view.peers.map((peer) => peerRow(peer, view.rounds, layout)),
  ];
  const shown = all.length <= most ? all : mostTelling(all, Math.max(0, most - 1));
  const name = Math.min(layout.name, Math.max(4, ...shown.map((row) => widthOf(row.name))));
  const lines = shown.map((row) => draw(row, { ...layout, name }, columns, paint));
  if (shown.length === all.length) return [...lines, ...waitingLine(view, columns, paint)];
  const others = all.filter((row) => !shown.includes(row));
  const left = `  … and ${others.length} more: ${summaryOf(others)}`;
  return [...lines, paint.dim(clip(left, columns))];
}

/** Returns the rows with the lowest rank, in their original order. */
function mostTelling(rows: readonly Row[], most: number): readonly Row[] {
  const chosen = new Set([...rows].sort((a, b) => a.rank - b.rank).slice(0, most));
  return rows.filter((row) => chosen.has(row));
}

/** Formats a summary such as `9 sent, 3 training`. */
function summaryOf(rows: readonly Row[]): string {
  const counts = new Map<string, number>();
  for (const { doing } of rows) {
    const word = /^\p{L}+/u.exec(doing)?.[0] ?? 'training';
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].map(([word, count]) => `${count} ${word}`).join(', ');
}

function draw(row: Row, layout: Layout, columns: number, paint: Paint): string {
  const cells = [
    ` ${padEnd(clip(row.name, layout.name), layout.name)}`,
    padEnd(clip(row.doing, layout.doing), layout.doing),
    padStart(row.loss === undefined ? '' : formatLoss(row.loss), 8),
    ...(layout.hasBytes
      ? [padStart(row.sentBytes === undefined ? '' : formatBytes(row.sentBytes), 8)]
      : []),
    ...(layout.hasRate ? [padStart(row.rate ?? '', 11)] : []),
  ];
  const line = clip(` ${cells.join('  ')}`, columns);
  const left = Math.min(SPARKLINE, columns - widthOf(line) - 2);
  const isDrawn = left >= FEWEST_POINTS && row.losses !== undefined && row.losses.length > 0;
  const curve = isDrawn ? `  ${sparkline(row.losses, left)}` : '';
  const plain = curve === '' ? line.trimEnd() : line;
  return (row.style ? paint[row.style](plain) : plain) + paint.cyan(curve);
}

function rowOf(worker: WorkerView, { task, rounds }: View, layout: Layout): Row {
  const { phase, loss, sentBytes, tokensPerSecond } = worker;
  const unit = /gpt|pretrained/.test(task) ? 'tok/s' : 'ex/s';
  return {
    name: safeLine(worker.name),
    doing: doing(worker, rounds, layout),
    loss,
    sentBytes,
    rate: tokensPerSecond === undefined ? undefined : `${formatRate(tokensPerSecond)} ${unit}`,
    losses: pointsOf(worker.losses),
    style: phase === 'failed' ? 'red' : phase === 'done' ? 'green' : undefined,
    rank: phase === 'failed' ? 0 : 1,
  };
}

function peerRow(
  { worker, name, state, round, sentBytes }: PeerView,
  rounds: number,
  layout: Layout,
): Row {
  const isDone = rounds > 0 && round >= rounds;
  const gone = state === 'away' && !isDone;
  const isNamed = state === 'training' && layout.hasBytes;
  return {
    name: called(worker, name),
    doing: isDone ? 'done' : isNamed ? `training, ${roundName(round)}` : state,
    sentBytes,
    style: gone ? 'yellow' : isDone ? 'green' : undefined,
    rank: gone ? 2 : state === 'training' ? 3 : 4,
  };
}

/** Returns a progress bar while the worker trains, if it fits; otherwise words. */
function doing(worker: WorkerView, rounds: number, layout: Layout): string {
  const { phase, step, steps, have, want, moved, round } = worker;
  const chunks = moved && `${moved.have}/${moved.of}`;
  const of = want === undefined ? `${have}` : `${have}/${want}`;
  const isShort = layout.doing < 25;
  switch (phase) {
    case 'training':
      return layout.bar === 0
        ? `training ${step}/${steps}`
        : `${bar(step / steps, layout.bar)} ${`${step}/${steps}`.padStart(8)}`;
    case 'joining':
      return isShort ? `joining ${of}` : `waiting for workers ${of}`;
    case 'collecting':
      if (chunks) return isShort ? `pulling ${chunks}` : `sent, pulling ${chunks}`;
      if (have === 0) return 'sent';
      return isShort ? `sent, has ${of}` : `sent, received ${of}`;
    case 'sending':
      return chunks ? `sending ${chunks}` : 'sending';
    case 'failed':
      return `failed: ${safeLine(worker.failure ?? '')}`;
    case 'starting':
      if (round === 0) return 'starting';
      return rounds > 0 && round >= rounds ? 'finishing' : 'between rounds';
    case 'done':
      return 'done';
  }
}

/** Names the workers that the workers of this screen wait for. */
function waitingLine(view: View, columns: number, paint: Paint): readonly string[] {
  const waiting = view.workers.filter(({ phase, missing }) => phase === 'collecting' && missing[0]);
  const missing = new Set(waiting.flatMap((worker) => worker.missing));
  // a local worker in this phase has already sent its contribution
  for (const { phase, worker } of view.workers) {
    if (phase === 'collecting' && worker !== undefined) missing.delete(worker);
  }
  if (missing.size === 0) return [];
  const names = [...missing].map((id) => nameOf(id, view)).join(', ');
  return [paint.dim(clip(`  waiting for ${names}`, columns))];
}

const nameOf = (id: WorkerId, { workers, peers }: View): string => {
  const local = workers.find(({ worker }) => worker === id);
  if (local !== undefined) return safeLine(local.name);
  return called(id, peers.find(({ worker }) => worker === id)?.name);
};
