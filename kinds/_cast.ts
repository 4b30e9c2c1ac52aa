/** Fields that votes and proposals share: run, round, recovery epoch, committee and view, and the digest of the outcome. */
import { member } from './_content.ts';
import { hex32, index, type Text } from './_text.ts';

/** -1, or a view. */
const viewOrNone: Text<number> = {
  says: 'integer >= -1',
  read: (text) => (text === '-1' ? -1 : index.read(text)),
  write: (value) => String(value),
};

/** Of a recovery epoch of a round. */
const epochMembers = {
  run: member(hex32, 'id of the run'),
  round: member(index, 'round index, from 0'),
  attempt: member(index, '0, or the number of the recovery epoch'),
  parent: member(hex32, 'digest of the outcome before; the run id in round 0'),
};

/** Of a view in it. */
export const castMembers = {
  ...epochMembers,
  ctx: member(hex32, 'the committee that the author counts itself into, see docs/committee.md'),
  view: member(index, 'view, from 0'),
  digest: member(hex32, 'digest of the outcome'),
  justify: member(viewOrNone, 'the earlier view in which the outcome was prepared; -1 for none'),
};

/** `s` repeats run and round for relays to index. */
export const isScope = (scope: readonly string[], run: string, round: number): boolean =>
  scope.length === 2 && scope[0] === run && scope[1] === `${run}/${round}`;

/** In strictly ascending order. */
export const isAscending = <T extends string | number>(list: readonly T[] = []): boolean =>
  list.every((item, i) => i === 0 || list[i - 1]! < item);
