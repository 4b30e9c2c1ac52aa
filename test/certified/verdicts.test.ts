/** Who convicts the author of a contribution that does not hold. */
import { electorateOf } from 'nostrain/certified/parts';
import type { Ledger } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import type { Evidence } from '../../src/certified/decisions/evidence.ts';
import {
  convictedBy,
  isUpheld,
  juryOf,
  proofsIn,
} from '../../src/certified/decisions/roster-change.ts';
import { but, eventfulEvidence, eventfulRound, keyOf } from '../support/eventful-run.ts';

const found = eventfulEvidence();

describe('a jury', () => {
  const { before } = eventfulRound(4);
  const members = before.ledger.members.map(({ key }) => key);
  const gone = keyOf(9);
  /** Members that sat in round 3, two of four, and one that left since. */
  const ledger = {
    ...before.ledger,
    members: before.ledger.members.map((member, i) => ({
      ...member,
      features: { jury: { sat: i < 2 ? [2, 3] : [1] } },
    })),
    features: {
      ...before.ledger.features,
      jury: {
        left: [
          [gone, [3]],
          [keyOf(8), [1]],
        ],
      },
    },
  } as never as Ledger;
  const chain = () => ({ ...before, ledger: { ...ledger } });
  const proofBy = (keys: readonly string[], checked = 2) => ({
    ...{ type: 'fault', id: 'p', key: keyOf(1), kind: 'failed-check', culprit: keyOf(4) },
    verdicts: keys.map((key) => ({ key, checked, event: { id: key } })),
  });
  const upheld = (proof: object, evidence: Evidence = but({ isSigned: () => true })) =>
    isUpheld(chain(), proof as never, evidence);

  it('is the committee of the round after, with those that left', () => {
    const jury = juryOf(chain(), 2, found);
    const sat = [...members.slice(0, 2), gone].sort();
    expect(jury).toMatchObject({ round: 3, attempt: 0, members: sat, size: 3 });
    expect(jury.weights).toHaveLength(3);
    expect(juryOf(chain(), 7, found).size).toBe(0);
    const committee = [...electorateOf(before, null).committee.members];
    expect([...juryOf(chain(), 3, found).members].sort()).toEqual(committee.sort());
  });

  it('is drawn once for a state', () => {
    const state = chain();
    expect(juryOf(state, 2, found)).toBe(juryOf(state, 2, found));
    expect(juryOf(state, 0, found)).not.toBe(juryOf(state, 2, found));
  });

  it('convicts with signed verdicts of its members, and of no others', () => {
    const all = [...members.slice(0, 2), gone];
    expect(upheld(proofBy(all))).toBe(true);
    expect(upheld(proofBy([...all, keyOf(7)]))).toBe(true);
    expect(upheld(proofBy([keyOf(6), keyOf(7), keyOf(10)]))).toBe(false);
    expect(upheld(proofBy(all.slice(0, 1)))).toBe(false);
    expect(upheld(proofBy(all), but({ isSigned: () => false }))).toBe(false);
    const one = but({ isSigned: ({ id }) => id === gone });
    expect(upheld(proofBy(all), one)).toBe(false);
    expect(upheld({ type: 'fault', kind: 'two-votes' })).toBe(true);
  });

  it('checks no signature of a key that was not on it', () => {
    const checked: string[] = [];
    const isSigned = ({ id }: { readonly id: string }) => checked.push(id) > 0;
    upheld(proofBy([keyOf(6), keyOf(7), members[0]!]), but({ isSigned }));
    expect(checked).toEqual([]);
    upheld(proofBy([...members.slice(0, 2), gone, keyOf(7)]), but({ isSigned }));
    expect(checked).not.toContain(keyOf(7));
  });

  it('ejects those whom its proofs accuse, as far as the proofs are available', () => {
    const proofs = [proofBy([]), { ...proofBy([]), kind: 'two-votes', culprit: keyOf(2) }];
    expect(convictedBy(proofs as never)).toEqual(new Set([keyOf(4)]));
    const messages = new Map<string, object>([
      ['p', proofs[0]!],
      ['v', { type: 'vote' }],
    ]);
    const evidence = { message: (id: string) => messages.get(id) as never };
    expect(proofsIn(['p', 'v', 'x'], evidence)).toEqual([proofs[0]]);
  });
});
