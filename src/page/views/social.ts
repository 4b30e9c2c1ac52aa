/** Discussion of a run: how a zap is split, whether notes split it right, and comments. All of it is shown as text. */
import { formatShare } from '../../base/numbers.ts';
import type { RunPicture } from '../../dashboard/run-picture.ts';
import { shortName } from '../../run/worker-names.ts';
import { closingShares } from '../../social/announce.ts';
import type { Comment } from '../../social/comments.ts';
import { button, type Child, h, table } from '../dom.ts';
import { shortHash } from '../format.ts';
import type { FromJob, SplitNote } from '../messages.ts';

const timeOf = (seconds: number): Child =>
  h('time', {}, new Date(Math.min(seconds, MOST_SECONDS) * 1000).toISOString().slice(0, 16));

/** Latest date that is shown; a date is what its author claims. */
const MOST_SECONDS = 4_102_444_800;

/** Returns the weights of the contributors once the run is over, and a verdict on each note that splits zaps. */
export function splitView(picture: RunPicture, notes: readonly SplitNote[]): readonly Child[] {
  const shares = closingShares(picture);
  if (shares.length === 0) return [];
  const total = shares.reduce((sum, { weight }) => sum + weight, 0);
  return [
    table(
      'How a zap is split, from the certified rounds',
      {
        contributor: ({ key }) => shortName(key),
        weight: ({ weight }) => weight,
        share: ({ weight }) => formatShare(weight / total),
      },
      shares,
    ),
    ...notes.map(({ author, at, verdict }) =>
      h(
        'p',
        { class: verdict.isRight ? 'good' : 'bad' },
        `note of ${shortName(author)}, `,
        timeOf(at),
        verdict.isRight
          ? ': its zap weights are right'
          : `: its zap weights are WRONG: ${verdict.problems.join('; ')}`,
        verdict.leftOut.length === 0
          ? ''
          : `; it leaves out ${verdict.leftOut.map(shortName).join(', ')}`,
      ),
    ),
  ];
}

export const commentsView = (comments: readonly Comment[]): readonly Child[] =>
  comments.length === 0
    ? [h('p', { class: 'empty' }, 'No comments on these relays.')]
    : [
        h(
          'ul',
          { class: 'comments' },
          ...comments.map(({ author, at, text, answers }) =>
            h(
              'li',
              {},
              h(
                'p',
                {},
                `${shortName(author)}${answers === undefined ? '' : ' answers'}, `,
                timeOf(at),
              ),
              h('p', { class: 'comment' }, text),
            ),
          ),
        ),
      ];

type Lineage = Extract<FromJob, { type: 'lineage' }>;

/** Returns the run that this one continues and the runs that continue it, each with a button that opens it. */
export function lineageView(
  { parent, forks }: Lineage,
  open: (run: string) => void,
): readonly Child[] {
  const from =
    parent &&
    h(
      'p',
      {},
      `goes on from run ${shortHash(parent.run)} after ${parent.rounds} rounds `,
      button('Open the parent', () => open(parent.run)),
    );
  const items = forks.map(({ run, name, parent: at }) =>
    h(
      'li',
      {},
      button(name, () => open(run)),
      ` goes on after ${at?.rounds ?? 0} rounds, run ${shortHash(run)}`,
    ),
  );
  const list = [h('p', {}, 'Forks of this run:'), h('ul', {}, ...items)];
  return [from, ...(items.length > 0 ? list : [])];
}
