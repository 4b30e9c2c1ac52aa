/** Loss by round: what contributors report of their own steps and of the shared parameters, as a chart and as a table. */

import type { RoundPicture, RunPicture } from '../../dashboard/run-picture.ts';
import { roundNumber } from '../../run/round-name.ts';
import { chart, type Series } from '../chart.ts';
import { type Child, h, table } from '../dom.ts';
import { bytes, loss, share } from '../format.ts';

/** Newest rounds that a table shows. */
const MOST_ROWS = 200;

/** Chart, legend and table. */
export function lossView(
  picture: RunPicture,
  chosen: number | undefined,
  width: number,
): readonly Child[] {
  const { rounds, planned, lossUnit } = picture;
  const span = Math.max(rounds.at(-1)?.round ?? 0, Math.min(planned, 2) - 1) + 1;
  const at = { width, chosen, rounds: span };
  const drawn = chart('Loss by round', seriesOf(rounds), at);
  const measured = MEASURES.filter(({ name }) => rounds.some((each) => each[name] !== undefined));
  return [
    drawn ?? h('p', { class: 'empty' }, whyEmpty(picture)),
    drawn && legend(seriesOf(rounds)),
    drawn && lossUnit !== '' && h('p', {}, `Losses are ${lossUnit}.`),
    ...measured.flatMap(({ name, title }) => [
      h('h3', {}, title),
      chart(`${title} by round`, [measureOf(rounds, name, title)], at),
    ]),
    h('details', {}, h('summary', {}, 'Rounds as a table'), roundTable(rounds)),
  ];
}

function whyEmpty({ reports, rounds }: RunPicture): string {
  if (!reports) {
    return 'The contributions of this run do not say their losses: it was made without --telemetry. Whoever has trained in it can open the page from their own folder, where losses are.';
  }
  return rounds.length === 0 ? 'No round is decided yet.' : 'No losses have been reported yet.';
}

function seriesOf(rounds: readonly RoundPicture[]): readonly Series[] {
  const of = (name: 'ownLoss' | 'sharedLoss') =>
    rounds.flatMap((each) => {
      const value = each[name];
      return value === undefined ? [] : [{ round: each.round, value }];
    });
  return [
    { name: 'training loss of the workers', className: 'own', points: of('ownLoss') },
    { name: 'validation loss of the shared model', className: 'shared', points: of('sharedLoss') },
  ];
}

/** What is measured beside the loss: of text, and of pictures. */
const MEASURES = [
  { name: 'bitsPerByte', title: 'Bits per byte of text' },
  { name: 'accuracy', title: 'Share of held-out pictures that are right' },
] as const;

const measureOf = (
  rounds: readonly RoundPicture[],
  measure: (typeof MEASURES)[number]['name'],
  name: string,
): Series => ({
  name,
  className: 'shared',
  points: rounds.flatMap(({ round, [measure]: value }) =>
    value === undefined ? [] : [{ round, value }],
  ),
});

const legend = (series: readonly Series[]): HTMLElement =>
  h(
    'ul',
    { class: 'legend' },
    ...series
      .filter(({ points }) => points.length > 0)
      .map(({ name, className }) => h('li', {}, h('span', { class: `key ${className}` }), name)),
  );

function roundTable(rounds: readonly RoundPicture[]): HTMLElement {
  const shown = rounds.slice(-MOST_ROWS);
  const caption = `${shown.length} of ${rounds.length} rounds`;
  const headings = [
    'round',
    'result',
    'training',
    'validation',
    'bits/byte',
    'right',
    'counted',
    'signed',
    'payloads',
  ];
  const rows = shown.map((each) => [
    roundNumber(each.round),
    each.result,
    loss(each.ownLoss),
    loss(each.sharedLoss),
    loss(each.bitsPerByte),
    share(each.accuracy),
    `${each.accepted.length} of ${each.roster.length}`,
    `${each.signers.length} of ${each.committee.length}`,
    bytes(each.sent.reduce((sum, sent) => sum + sent.bytes, 0)),
  ]);
  return table(caption, headings, rows.reverse());
}
