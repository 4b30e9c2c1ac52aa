import { buildFault, rebuildEvent } from 'nostrain/certified/parts';
import type { SignedEvent } from 'nostrain/network';
import type { Commit, Join, Leave, Message, Prepare, ViewChangeVote } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import {
  buildMessage,
  historyBy,
  toProtocolMessage,
} from '../../../src/certified/wire/certified-events.ts';
import { signerOf } from '../../support/certified-run.ts';
import { forgedTwin } from '../../support/signers.ts';

const [run, parent, ctx, digest, other] = ['1', '2', '3', '4', '5'].map((d) => d.repeat(64)) as [
  ...[string, string, string, string, string],
];
const life = { createdAt: 1_790_000_000, expiresAt: 1_790_086_400 };
const position = { run, round: 3, attempt: 0, parent, ctx, view: 1, digest };
const prepare: Prepare = { ...position, type: 'vote', step: 'prepare', justify: -1 };
const commit: Commit = {
  ...{ ...position, type: 'vote', step: 'commit', justify: -1 },
  unlisted: [0, 7, 65_535],
};
const join: Join = { type: 'join', run, after: parent, tip: digest, evidence: 'invited' };
const leave: Leave = { type: 'leave', run, last: 7 };
const ballot: ViewChangeVote = {
  type: 'ballot',
  run,
  round: 3,
  attempt: 1,
  parent,
  prepared: null,
};
const claim = { attempt: 0, view: 2, digest, proposal: other, prepares: [ctx, digest] };

const sign = (said: Message | Join | Leave, number = 1): SignedEvent =>
  signerOf(number).sign(buildMessage(said, life));

describe('messages of members', () => {
  it.each<Message | Join | Leave>([
    ...[prepare, commit, join, { ...join, evidence: '' }, leave, ballot],
    { ...ballot, prepared: claim },
  ])('comes back as it was: $type', (said) => {
    const event = sign(said);
    const signed = { id: event.id, key: signerOf(1).publicKey };
    const { createdAt, expiresAt: expiration } = life;
    const isListed = said === commit || said.type === 'join' || said.type === 'leave';
    const signature = { createdAt, expiration, sig: event.sig };
    const again = isListed ? { signature } : {};
    expect(toProtocolMessage(event, run)).toEqual({ ...said, ...signed, ...again });
    expect(toProtocolMessage(event, other)).toBeUndefined();
    expect(historyBy(run, [event.pubkey])[0]!.kinds).toContain(event.kind);
  });

  it('are unreadable in any other form, and ignored if of another kind', () => {
    const event = sign(prepare);
    const spaced = { ...event, content: `${event.content} ` };
    expect(toProtocolMessage(spaced, run)).toMatchObject({
      type: 'unreadable',
      reason: 'malformed',
    });
    expect(toProtocolMessage({ ...event, kind: 1 }, run)).toBeUndefined();
  });
});

describe('a fault proof (R-09)', () => {
  const proof = (a: SignedEvent, b: SignedEvent) =>
    toProtocolMessage(signerOf(9).sign(buildFault(run, [a, b], life)), run);
  const culprit = signerOf(1).publicKey;

  it('has two different contents for one slot, whoever publishes it', () => {
    const events = [sign(commit), sign({ ...commit, digest: other })] as const;
    expect(proof(...events)).toMatchObject({ type: 'fault', kind: 'equivocation', culprit });
    const ballots = [sign(ballot), sign({ ...ballot, prepared: claim })] as const;
    expect(proof(...ballots)).toMatchObject({ type: 'fault', kind: 'equivocation', culprit });
  });

  it('may also be a broken lock', () => {
    const later = sign({ ...prepare, digest: other, view: 4 });
    expect(proof(sign(commit), later)).toMatchObject({ kind: 'broken-lock', culprit });
    const justified = sign({ ...prepare, digest: other, view: 4, justify: 2 });
    expect(proof(sign(commit), justified)).toMatchObject({ type: 'unreadable' });
  });

  it('proves nothing with one content, two keys, a forgery, or events of other runs', () => {
    const [a, b] = [sign(commit), sign({ ...commit, digest: other })];
    const again = signerOf(1).sign(buildMessage(commit, { ...life, createdAt: 1_790_000_001 }));
    const pairs: [SignedEvent, SignedEvent][] = [
      [a, again],
      [a, sign({ ...commit, digest: other }, 2)],
      [a, forgedTwin(b)],
      [sign({ ...commit, run: other }), sign({ ...commit, run: other, digest: other })],
      [a, sign(prepare)],
    ];
    for (const pair of pairs) expect(proof(...pair)).toMatchObject({ type: 'unreadable' });
  });
});

describe('an event that could not be rebuilt from an outcome', () => {
  const tagged = (said: Message | Join | Leave, ...more: readonly string[][]) => {
    const draft = buildMessage(said, life);
    return signerOf(1).sign({ ...draft, tags: [...draft.tags, ...more] });
  };

  it.each<Commit | Join | Leave>([commit, join, leave])('is no $type', (said) => {
    const malformed = { type: 'unreadable', reason: 'malformed' };
    expect(toProtocolMessage(tagged(said, ['client', 'other']), run)).toMatchObject(malformed);
    const draft = buildMessage(said, life);
    const reversed = signerOf(1).sign({ ...draft, tags: [...draft.tags].reverse() });
    expect(toProtocolMessage(reversed, run)).toMatchObject(malformed);
    const late = signerOf(1).sign({ ...draft, created_at: life.expiresAt });
    expect(toProtocolMessage(late, run)).toMatchObject(malformed);
  });

  it.each<Commit | Join | Leave>([commit, join, leave])('is a $type with its work', (said) => {
    const event = tagged(said, ['nonce', '776', '8']);
    const message = toProtocolMessage(event, run);
    if (message?.signature === undefined) throw new Error('it cannot be made again');
    expect(message.signature.nonce).toEqual(['776', '8']);
    expect(rebuildEvent(said, event.pubkey, message.signature)).toEqual(event);
  });

  it('is rebuilt as it was signed', () => {
    const event = sign(commit);
    const message = toProtocolMessage(event, run);
    expect(rebuildEvent(commit, event.pubkey, message!.signature!)).toEqual(event);
    const other = rebuildEvent({ ...commit, unlisted: [1] }, event.pubkey, message!.signature!);
    expect(other.id).not.toBe(event.id);
  });
});
