/** The delegation in a join: signed for this run and this key, as requested, and checked wherever joins are. */

import { systemClock } from 'nostrain/base';
import { draftDelegation, readDelegation } from 'nostrain/certified/parts';
import { type SignedEvent, verifyEvent } from 'nostrain/network';
import { type RunSpec, runIdOf } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { credentialsFor, refuseAdmission } from '../../src/certified/decisions/admission.ts';
import { rebuildDelegation } from '../../src/certified/wire/messages.ts';
import { type Delegation, delegationField } from '../../src/run/spec/feature-fields.ts';
import { sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const [owner, session, other] = [11, 12, 13].map((index) => signerOf(index));
const spec = sampleSpec({ sessions: true });
const of = { run: runIdOf(spec), session: session!.publicKey };
const AT = 1_790_000_000;

function delegated(to = of): Delegation {
  const read = readDelegation(owner!.sign(draftDelegation(to, 7, AT)), to);
  if (!read.ok) throw new TypeError(read.issue.message);
  return read.value;
}

const isSigned = (event: SignedEvent) => verifyEvent(event).ok;
const judge = (by: Delegation | null, within: RunSpec = spec, key = of.session, stakes = null) =>
  refuseAdmission(
    within,
    runIdOf(within),
    stakes as never,
    { key, evidence: '', features: { sessions: { by } } },
    isSigned,
  );

describe('a delegation', () => {
  it('is rebuilt from the join, and is valid only for this key and run', () => {
    const by = delegated();
    expect(verifyEvent(rebuildDelegation(of, by)).ok).toBe(true);
    expect(judge(by)).toBeUndefined();
    expect(judge(null)).toBeUndefined();
    const refused = 'join-without-delegation';
    expect(judge(by, spec, other!.publicKey)).toBe(refused);
    const another = sampleSpec({ sessions: true, name: 'another run' });
    expect(judge(by, another)).toBe(refused);
    for (const forged of [
      { ...by, until: 8 },
      { ...by, createdAt: AT + 1 },
      { ...by, key: other!.publicKey },
    ]) {
      expect(judge(forged)).toBe(refused);
    }
    const toItself = { run: of.run, session: owner!.publicKey };
    expect(judge(delegated(toItself), spec, owner!.publicKey)).toBe(refused);
  });

  it('is read from a signer only if it is exactly what was requested', () => {
    const draft = draftDelegation(of, 7, AT);
    const issue = (event: SignedEvent) => {
      const read = readDelegation(event, of);
      return read.ok ? undefined : read.issue.code;
    };
    expect(issue(owner!.sign(draft))).toBeUndefined();
    const added = { ...draft, tags: [...draft.tags, ['client', 'x']] };
    expect(issue(owner!.sign(added))).toBe('changed');
    expect(issue({ ...owner!.sign(draft), pubkey: other!.publicKey })).toBe('bad-id');
    const elsewhere = draftDelegation({ ...of, session: other!.publicKey }, 7, AT);
    expect(issue(owner!.sign(elsewhere))).toBe('other-session');
    expect(issue(owner!.sign({ ...draft, kind: 1 }))).toBe('no-delegation');
  });

  it('gives the session key the trust and the stake of its author', async () => {
    const key = owner!.publicKey;
    const by = delegated();
    const trust = { kind: 'trust', anchors: [other!.publicKey] };
    const trusting = sampleSpec({ sessions: true, joinsPerRound: 4, admission: trust });
    const list = other!.sign({ kind: 3, created_at: AT, tags: [['p', key]], content: '' });
    const means = {
      ...{ clock: systemClock, signal: new AbortController().signal },
      find: async () => [list],
    };
    const to = { ...of, run: runIdOf(trusting) };
    const shown = await credentialsFor(trusting, to.run, to.session, means, delegated(to));
    expect(shown.features?.trust?.proof).toHaveLength(1);
    const asking = { key: to.session, ...shown };
    expect(refuseAdmission(trusting, to.run, null, asking, isSigned)).toBeUndefined();
    const alone = { ...asking, features: { ...shown.features, sessions: { by: null } } };
    expect(refuseAdmission(trusting, to.run, null, alone, isSigned)).toBe('join-without-trust');
    const stake = { source: 'file', snapshot: 'ab'.repeat(32) };
    const admission = { kind: 'stake', least: '10' };
    const staked = sampleSpec({ sessions: true, stake, admission });
    const stakes = new Map([[key, 10n]]) as never;
    const lent = delegated({ ...of, run: runIdOf(staked) });
    expect(judge(lent, staked, of.session, stakes)).toBeUndefined();
    expect(judge(null, staked, of.session, stakes)).toBe('join-without-stake');
    // a delegation for another run brings no stake
    expect(judge(by, staked, of.session, stakes)).toBe('join-without-delegation');
  });

  it('is a small field of a join, in a single form', () => {
    const by = delegated();
    expect(delegationField.read({ ...by })).toEqual(by);
    expect(delegationField.read(null)).toBeNull();
    const bad = [
      ...['', 1, [], {}, { ...by, more: 1 }, { ...by, until: -1 }, { ...by, until: 0.5 }],
      ...[
        { ...by, until: 2 ** 32 },
        { ...by, createdAt: 0 },
        { ...by, sig: by.sig.slice(2) },
      ],
      ...[
        { ...by, sig: by.sig.toUpperCase() },
        { ...by, key: 'npub1' },
      ],
    ];
    for (const json of bad) expect(delegationField.read(json)).toBeUndefined();
  });
});
