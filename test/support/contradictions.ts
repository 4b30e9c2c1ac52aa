/** Pairs of unsigned events that contradict each other, one for each kind of fault proof. */

import { sha256Hex, utf8 } from 'nostrain/base';
import { buildMember, buildVote } from 'nostrain/certified/parts';
import { proposal as proposalKind } from 'nostrain/kinds';
import { buildManifest, type EventDraft, type LocalManifest } from 'nostrain/network';
import type { Commit, Vote } from 'nostrain/run';
import type { PreparedClaim } from '../../src/run/vote.ts';

export const hash = (word: string): string => sha256Hex(utf8(word));
export const RUN = hash('run');
export const lifetime = { createdAt: 1_700_000_000, expiresAt: 1_700_604_800 };

type Position = Partial<Omit<Commit, 'type' | 'step'>>;
const position = (change: Position = {}) => ({
  ...{ run: RUN, round: 7, attempt: 0, parent: hash('parent'), ctx: hash('ctx') },
  ...{ view: 2, digest: hash('X'), justify: -1 },
  ...change,
});
export const prepare = (change: Position = {}): EventDraft =>
  buildVote({ type: 'vote', step: 'prepare', ...position(change) } as Vote, lifetime);
export const commit = (change: Position = {}): EventDraft =>
  buildVote({ type: 'vote', step: 'commit', unlisted: [], ...position(change) } as Vote, lifetime);
export const propose = (body: string, change: Position = {}, more: object = {}): EventDraft => {
  const { features: _, unlisted: __, ...said } = position(change);
  const scope = [said.run, `${said.run}/${said.round}`];
  const dates = { scope, x: said.digest, expiration: lifetime.expiresAt };
  return proposalKind.build({ ...said, body, ...more, ...dates }, lifetime.createdAt);
};
export const ballot = (prepared: PreparedClaim | null, change: Position = {}): EventDraft => {
  const { run, round, attempt, parent } = position({ attempt: 1, ...change });
  return buildMember({ type: 'ballot', run, round, attempt, parent, prepared }, lifetime);
};
export const manifest = (payload: string, more: Partial<LocalManifest> = {}): EventDraft => {
  const { run, round, parent } = position();
  const own = { run, round, parent, base: hash('base'), codec: 'int8', examples: 3, steps: 2 };
  return buildManifest({ ...own, ...more }, utf8(payload), lifetime).draft;
};
export const worked = (draft: EventDraft, count: string): EventDraft => ({
  ...draft,
  tags: [...draft.tags, ['nonce', count, '8']],
});

const odd = 'q"u\\o\n☃\u2028\u0001';
export const claim = {
  ...{ attempt: 0, view: 1, digest: hash('X'), proposal: hash('p') },
  prepares: [hash('a'), hash('b')].sort(),
};
export const scores = (score: number) => ({ scores: { of: [[0, score]] } }) as never;

/** Two events that no honest key signs both of. */
export const faults: Readonly<Record<string, readonly [EventDraft, EventDraft]>> = {
  'two prepares': [prepare(), prepare({ digest: hash('Y') })],
  'prepares that only differ in justify': [prepare(), prepare({ justify: 1 })],
  'prepares of other committees': [prepare(), prepare({ ctx: hash('other') })],
  'two commits': [commit(), commit({ digest: hash('Y') })],
  'commits with other unlisted places': [commit(), commit({ unlisted: [0, 65_535] })],
  'commits with other scores': [
    commit({ features: scores(5), unlisted: [3] }),
    commit({ features: scores(-5), unlisted: [3] }),
  ],
  'a vote with work': [worked(commit(), '1234567'), commit({ digest: hash('Y') })],
  'two proposals': [propose('{"a":1}'), propose('{"a":2}', { digest: hash('Y') })],
  'proposals with escapes': [
    propose(JSON.stringify({ [odd]: odd }), { justify: 0 }, { prepares: [hash('a')] }),
    propose('{"{}":"}{"}', { digest: hash('Y'), justify: 0 }, { prepares: [hash('a')] }),
  ],
  'a proposal in chunks': [
    propose('{}'),
    propose('', { digest: hash('Y') }, { body: undefined, bytes: 70_000, root: hash('r') }),
  ],
  'a proposal of a recovery': [
    propose('{}', { attempt: 1 }, { ballots: [hash('v')] }),
    propose('{}', { attempt: 1, digest: hash('Y') }, { ballots: [hash('w')] }),
  ],
  'a proposal and a prepare': [propose('{}'), prepare({ digest: hash('Y') })],
  'a broken lock': [commit({ view: 3 }), prepare({ view: 4, digest: hash('Y') })],
  'a lock broken by a proposal': [
    commit({ view: 3 }),
    propose('{}', { view: 5, digest: hash('Y'), justify: 2 }, { prepares: [hash('a')] }),
  ],
  'two view-change votes': [ballot(null), ballot(claim)],
  'view-change votes of other claims': [ballot(claim), ballot({ ...claim, digest: hash('Y') })],
  'two manifests': [manifest('AAAA'), manifest('AAAB')],
  'manifests of payloads in chunks': [manifest('x'.repeat(90_000)), manifest('y')],
  'large manifests': [manifest('x'.repeat(45_000)), manifest('y'.repeat(45_000))],
  'manifests with all members': [
    manifest('AAAA', { prev: hash('prev'), roster: hash('roster') }),
    manifest('AAAA', { prev: hash('prev'), roster: hash('roster'), examples: 4 }),
  ],
};
