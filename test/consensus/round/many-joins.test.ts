/** Any key can send a join: twenty thousand joins must not delay a round. */

import { chooseJoins } from 'nostrain/consensus';
import { expect, test } from 'vitest';
import { MOST_NEWCOMERS } from '../../../src/consensus/round/roster-change.ts';
import { keyOf } from '../../support/members.ts';
import { play, rulesOf } from '../../support/run-history.ts';

/** The list, and the number of elements read so far. */
function counted<T>(list: readonly T[]): { readonly list: readonly T[]; reads: () => number } {
  let reads = 0;
  const proxy = new Proxy(list as T[], {
    get(target, name, receiver) {
      if (typeof name === 'string' && /^\d+$/.test(name)) reads++;
      return Reflect.get(target, name, receiver);
    },
  });
  return { list: proxy, reads: () => reads };
}

const wide = rulesOf({ joinsPerRound: 1_000_000 });
const tip = keyOf(1);

test.each([2_000, 20_000])(
  '%i joins: each is looked at a few times, and so is each member',
  (many) => {
    const known = Array.from({ length: many }, (_, i) => ({ key: keyOf(100 + i), tip }));
    const ledger = play(wide, {}, {});
    const members = counted(ledger.members);
    const joins = counted(known);
    const chosen = chooseJoins(wide, { ...ledger, members: members.list }, joins.list);
    expect(chosen).toHaveLength(MOST_NEWCOMERS);
    expect(joins.reads()).toBeLessThanOrEqual(2 * many);
    expect(members.reads()).toBeLessThanOrEqual(2 * ledger.members.length);
  },
);
