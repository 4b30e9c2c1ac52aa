/** A leave is not undone by earlier joins of its key. */

import {
  certifiedMembers,
  chainHeadOf,
  createEvidenceStore,
  gather,
} from 'nostrain/certified/parts';
import { describe, expect, it } from 'vitest';
import { draftOf } from '../../src/certified/rounds/compose.ts';
import { certifiedSpec, generateRun, type Round, signerOf } from '../support/certified-run.ts';

const spec = certifiedSpec({ training: { rounds: 40 } });
const leaver = signerOf(5).publicKey;
/** Worker 5 joins by outcome 1 and leaves by outcome 3. */
const left: readonly Round[] = [{}, { joins: [5] }, {}, { leaves: [5] }];

/** The keys whose joins a proposer lists in the round after these, from all events. */
function joinsAfter(...rounds: readonly Round[]): readonly string[] {
  const run = generateRun(rounds, spec);
  const evidence = createEvidenceStore();
  for (const message of gather(run.events, run).messages.values()) evidence.add(message);
  const material = {
    ...{ me: signerOf(1).publicKey, result: 'void' as const, ballots: [], reveal: '' as const },
    ...{ late: [], available: [], bad: [], votes: null, snapshot: '' as const, nowMs: 0 },
  };
  return draftOf(run.state, evidence, material).joins.map(({ key }) => key);
}

describe('run leave is undone by an earlier join (attack: old join events still counted)', () => {
  it('the old join of a key that left is not proposed', () => {
    expect(joinsAfter(...left)).toEqual([]);
    expect(joinsAfter(...left, {}, {})).toEqual([]);
  });

  it('an outcome that lists it is invalid', () => {
    const undone = () => generateRun([...left, { oldJoins: [5] }], spec);
    expect(undone).toThrow('join-before-leave');
    const later = () => generateRun([...left, {}, {}, {}, { oldJoins: [5] }], spec);
    expect(later).toThrow('join-before-leave');
  });

  it('the join of a key that has asked to leave since is not proposed, whether listed or not', () => {
    const { members } = generateRun(left, spec).state.ledger;
    expect(members.map(({ key }) => key)).not.toContain(leaver);
    const asked = generateRun([{}, {}], spec);
    const evidence = createEvidenceStore();
    for (const message of gather(asked.events, asked).messages.values()) evidence.add(message);
    const signed = { id: 'a'.repeat(64), key: leaver };
    const { run } = asked;
    evidence.add({ ...signed, type: 'join', run, after: run, tip: 'b'.repeat(64), evidence: '' });
    const material = {
      ...{ me: signerOf(1).publicKey, result: 'void' as const, ballots: [], reveal: '' as const },
      ...{ late: [], available: [], bad: [], votes: null, snapshot: '' as const, nowMs: 0 },
    };
    const listed = () => draftOf(asked.state, evidence, material).joins.map(({ key }) => key);
    expect(listed()).toEqual([leaver]);
    evidence.add({ ...signed, id: 'c'.repeat(64), type: 'leave', run, last: 1 });
    expect(listed()).toEqual([]);
  });

  it('a join that was made after the leave counts', () => {
    const back = generateRun([...left, {}, { joins: [5] }], spec);
    expect(back.state.ledger.members.map(({ key }) => key)).toContain(leaver);
  });

  it('the leave is remembered across a restart, and forgotten once no older join could be listed', () => {
    const { state } = generateRun(left, spec);
    expect(state.departed).toEqual([{ key: leaver, round: 3 }]);
    const head = chainHeadOf(state, null);
    const kept = certifiedMembers.format({ head } as never);
    const read = certifiedMembers.parse(JSON.parse(JSON.stringify(kept)));
    expect(read?.head).toEqual(head);
    const later = generateRun([...left, ...Array.from({ length: 16 }, () => ({}))], spec);
    expect(later.state.departed).toEqual([]);
  });
});
