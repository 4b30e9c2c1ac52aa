/** What a worker's store of evidence keeps, of whom, and until when. */
import { createEvidenceStore, gather, type ProtocolMessage } from 'nostrain/certified/parts';
import { describe, expect, it } from 'vitest';
import { lacking, type PayloadLimits } from '../../src/certified/decisions/evidence.ts';
import { JURY_ROUNDS } from '../../src/run/spec/feature-fields.ts';
import { generateRun } from '../support/certified-run.ts';
import { keyOf } from '../support/members.ts';

const [member, stranger, other] = [keyOf(1), keyOf(2), keyOf(3)];
let ids = 0;

/** A message as the store sees it, by default of a member in round 4. */
const message = (type: string, fields: object = {}): ProtocolMessage =>
  ({ type, id: keyOf(1000 + ids++), key: member, ...fields }) as never;
const manifest = (round: number, fields: object = {}) =>
  message('manifest', { manifest: { round, root: `root ${round}`, worker: member, ...fields } });
const proof = (culprit: string, fields: object = {}) =>
  message('fault', { culprit, kind: 'two-votes', ...fields });

function storeOf(members: readonly string[] | undefined = [member], limits?: PayloadLimits) {
  const store = createEvidenceStore(undefined, limits);
  if (members) store.admit(members);
  return store;
}

const strange = { key: stranger };
describe('a store of evidence', () => {
  it.each<[string, ProtocolMessage, boolean]>([
    ['a vote of a member', message('vote', { round: 4 }), true],
    ['a join of a member', message('join'), true],
    ['an unreadable event of a member', message('unreadable'), false],
    ['a vote of a stranger', message('vote', { ...strange, round: 4 }), false],
    ['a manifest of a stranger', message('manifest', { ...strange, manifest: {} }), false],
    ['a join of a stranger', message('join', strange), true],
    ['a leave of a stranger', message('leave', strange), true],
    ['an unreadable event of a stranger', message('unreadable', strange), false],
    ['a proof against a member', proof(member, strange), true],
    ['a proof of a stranger against a stranger', proof(other, strange), false],
  ])('treats %s as it should', (_, each, isStored) => {
    const store = storeOf();
    expect(store.add(each)).toBe(isStored);
    expect(store.message(each.id)).toBe(isStored ? each : undefined);
    expect([...store.messages()]).toEqual(isStored ? [each] : []);
    // what was requested is always stored, once
    expect(store.add(each, true)).toBe(!isStored);
    expect(store.message(each.id)).toBe(each);
    expect(store.add(each, true)).toBe(false);
  });

  it('takes messages of everyone before it knows the members', () => {
    const store = createEvidenceStore();
    expect(store.add(message('vote', { ...strange, round: 0 }))).toBe(true);
    expect(store.add(proof(other, strange))).toBe(true);
    expect(store.add(message('unreadable'))).toBe(false);
  });

  it('gives a stranger 16 KiB, and a key that became a member more, with what it sent before', () => {
    const store = storeOf();
    const long = () => message('join', { key: stranger, evidence: 'x'.repeat(6000) });
    const joins = [long(), long(), long()];
    for (const each of joins) store.add(each);
    const before = [...store.messages()];
    expect(before.length).toBeLessThan(3);
    const stays = message('leave', { key: other });
    store.add(stays);
    store.admit([member, stranger]);
    expect(new Set([...store.messages()])).toEqual(new Set([...before, stays]));
    const more = [long(), long(), long()];
    for (const each of more) expect(store.add(each)).toBe(true);
    for (const each of [...before, ...more]) expect(store.message(each.id)).toBe(each);
    // nothing is stored twice, and a vote of the new member is taken
    expect([...store.messages()]).toHaveLength(before.length + 4);
    expect(store.add(message('vote', { key: stranger, round: 1 }))).toBe(true);
    expect(store.add(message('vote', { key: other, round: 1 }))).toBe(false);
    // what it sent as a member takes no share of what it may send as a stranger again
    store.admit([member]);
    const again = [long(), long()];
    for (const each of again) expect(store.add(each)).toBe(true);
    for (const each of [...before, ...more, ...again]) expect(store.message(each.id)).toBe(each);
  });

  it('bounds the bytes of one member: of manifests by their payload, of proposals by their outcome', () => {
    const size = 10 << 20;
    const payload = { length: size } as Uint8Array;
    const store = storeOf();
    const sent = [1, 2, 3, 4].map((round) => manifest(round, { payload }));
    for (const each of sent) store.add(each);
    expect([...store.messages()].length).toBeLessThanOrEqual(3);
    expect([...store.messages()].length).toBeGreaterThan(0);
    const small = storeOf();
    for (const each of [1, 2, 3, 4]) small.add(manifest(each));
    expect([...small.messages()]).toHaveLength(4);
    const bodies = storeOf();
    const outcome = { joins: ['x'.repeat(3 << 20)] };
    for (const round of [1, 2, 3]) bodies.add(message('proposal', { round, outcome }));
    // counted four times: as text, and as what is parsed from it
    expect([...bodies.messages()].length).toBeLessThan(3);
  });

  it('finds the proposals of an outcome', () => {
    const store = storeOf();
    const [a, b] = ['a'.repeat(64), 'b'.repeat(64)];
    const proposals = [a, b, a].map((digest) =>
      message('proposal', { round: 4, digest, outcome: {} }),
    );
    for (const each of proposals) store.add(each);
    store.add(message('vote', { round: 4, digest: a }));
    expect(store.proposals(a)).toEqual([proposals[0], proposals[2]]);
    expect(store.proposals('c'.repeat(64))).toEqual([]);
  });

  it('finds the payload of a manifest, in it or from chunks, and its tables and beacon values', () => {
    const store = storeOf();
    const inside = { root: 'r', payload: Uint8Array.of(1) };
    expect(store.payload(inside as never)).toEqual(Uint8Array.of(1));
    const away = { root: 'other', round: 1, worker: member };
    expect(store.payload(away as never)).toBeUndefined();
    store.addPayload(away as never, Uint8Array.of(2));
    expect(store.payload(away as never)).toEqual(Uint8Array.of(2));
    const table = new Map([[member, 5n]]);
    store.addStakes('table', table);
    expect(store.stakes('table')).toBe(table);
    expect(store.stakes('none')).toBeUndefined();
    store.addBeacon(12, 'value');
    expect(store.beacon(12)).toBe('value');
    expect(store.beacon(13)).toBeUndefined();
  });

  it('stores eight payloads of the largest size for each key, and no more', () => {
    const store = storeOf([member], { payloadBytes: 10, inAll: 1000 });
    const sent = Array.from({ length: 9 }, (_, i) => ({ root: `${i}`, round: 1, worker: member }));
    for (const each of sent.slice(0, 8)) store.addPayload(each as never, new Uint8Array(10));
    const stored = () => sent.filter((each) => store.payload(each as never)).length;
    expect(stored()).toBe(8);
    store.addPayload(sent[8] as never, new Uint8Array(10));
    expect(stored()).toBeLessThanOrEqual(8);
    // by default, payloads of 512 MiB
    const wide = createEvidenceStore();
    const huge = { length: 2 ** 29 } as Uint8Array;
    for (const each of sent.slice(0, 8)) wide.addPayload(each as never, huge);
    expect(sent.filter((each) => wide.payload(each as never))).toHaveLength(8);
    wide.addPayload({ ...sent[8]!, worker: other } as never, huge);
    expect(sent.filter((each) => wide.payload(each as never)).length).toBeLessThanOrEqual(8);
  });

  it('finds a proof of two contradicting events of an author, but not one of a failed check', () => {
    const store = storeOf([member, other]);
    const vote = message('vote', { round: 4 });
    const pair = (id: string) => [id, keyOf(99)] as const;
    store.add(vote);
    store.add(proof(member, { kind: 'failed-check' }));
    store.add(proof(other));
    // not a proof, although it names the author
    store.add(message('vote', { round: 4, culprit: member }));
    expect(store.proofOf(pair(vote.id))).toBeUndefined();
    const good = proof(member);
    store.add(good);
    expect(store.proofOf(pair(vote.id))).toBe(good);
    expect(store.proofOf(pair(keyOf(98)))).toBeUndefined();
  });

  it('forgets the messages and payloads of earlier rounds, and neither joins, leaves nor proofs', () => {
    const store = storeOf();
    const old = [
      message('vote', { round: 3 }),
      message('proposal', { round: 3, outcome: {} }),
      manifest(3),
      message('verdict', { checked: 3 - JURY_ROUNDS }),
    ];
    const stays = [
      message('vote', { round: 4 }),
      manifest(4),
      message('verdict', { checked: 4 - JURY_ROUNDS }),
      message('join'),
      message('leave'),
      proof(member),
    ];
    const unreadable = message('unreadable', { round: 9 });
    for (const each of [...old, ...stays]) store.add(each);
    store.add(unreadable, true);
    for (const round of [3, 4])
      store.addPayload({ root: `${round}`, round, worker: member } as never, new Uint8Array(1));
    const payloads = () => ['3', '4'].filter((root) => store.payload({ root } as never));
    store.forgetBefore(3);
    expect([...store.messages()]).toHaveLength(old.length + stays.length);
    expect(payloads()).toEqual(['3', '4']);
    store.forgetBefore(4);
    expect([...store.messages()]).toEqual(stays);
    expect(payloads()).toEqual(['4']);
    const first = message('unreadable');
    store.add(first, true);
    store.forgetBefore(0);
    expect(store.message(first.id)).toBeUndefined();
  });

  it('checks each signature once, and none of a stored event', () => {
    const { events, run, spec } = generateRun([{}]);
    const gathered = gather(events, { run, spec });
    const [genuine, ...rest] = events.filter(({ id }) => gathered.message(id) !== undefined);
    let checks = 0;
    const schnorr = { verify: () => ++checks > 0 };
    const store = createEvidenceStore({ schnorr } as never);
    const forged = { ...genuine!, sig: rest[0]!.sig };
    expect(store.isSigned(genuine!)).toBe(true);
    expect(store.isSigned(genuine!)).toBe(true);
    expect(checks).toBe(1);
    expect(store.isSigned(forged)).toBe(true);
    expect(checks).toBe(2);
    expect(store.isSigned({ ...forged, id: rest[0]!.id })).toBe(true);
    expect(checks).toBe(3);
    store.add(gathered.message(rest[1]!.id)!, true);
    expect(store.isSigned(rest[1]!)).toBe(true);
    expect(checks).toBe(3);
  });
});

it('a ruling without evidence names all of it', () => {
  const missing = [{ what: 'event', id: 'a' } as const, { what: 'beacon', id: '5' } as const];
  expect(lacking(...missing)).toEqual({ ok: false, missing });
});
