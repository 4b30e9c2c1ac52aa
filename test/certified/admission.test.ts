import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { sha256 } from '../../src/base/hash.ts';
import { toNoun } from '../../src/certified/nouns.ts';
import { termsOf } from '../../src/certified/rows.ts';
import { judgeSubmission, sharesOf } from '../../src/certified/submissions.ts';
import type { SignedEvent, Signer } from '../../src/network/event.ts';
import { Handed, Inbox } from '../../src/network/transport/inbox.ts';
import { historyFilter } from '../../src/network/wire/certified-events.ts';
import { buildManifest, type OwnManifest } from '../../src/network/wire/manifests.ts';
import { nativeCrypto } from '../../src/node/native-crypto.ts';
import { encodeNstr } from '../../src/python/codec/nstr.ts';
import type { RejectReason } from '../../src/run/contribution.ts';
import { createLayout } from '../../src/tensor/params.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { forgedTwin } from '../support/signers.ts';

/** Two rounds are over; members 1 to 4 are in the roster of the third. */
const { run, state } = generateRun([{}, {}], certifiedSpec());
const terms = termsOf(state, false)!;
const { layout } = state.params;
const life = { createdAt: 1_790_000_500, expiresAt: 2_500_000_000 };
const member = signerOf(2);
const stranger = signerOf(9);

const payloadOf = (of = layout): Uint8Array =>
  encodeNstr({ layout: of, values: new Float64Array(of.size).fill(0.5) }, { ratio: 1 }).container;

/** A contribution to the third round with nothing wrong but what is changed. */
function manifest(
  change: Partial<OwnManifest> = {},
  signer: Signer = member,
  payload = payloadOf(),
): SignedEvent {
  const { round, parent, modelRoot: base } = state;
  const roster = sharesOf(terms).digest;
  const own = { run, round, parent, base, codec: 'nstr', roster, examples: 8, steps: 4 };
  return signer.sign(buildManifest({ ...own, ...change }, payload, life).draft);
}

/** What a worker makes of something a relay sends, in the order in which it looks. */
function admit(raw: unknown): RejectReason | 'admitted' | 'stray' {
  const inbox = new Inbox(nativeCrypto);
  const received = inbox.receive(
    { type: 'event', subscription: 's', event: raw, isPlain: false },
    [historyFilter(run)],
    new Handed(100, systemClock),
  );
  if (received.verdict === 'refused') return received.reason;
  if (received.verdict !== 'new') return 'stray';
  const noun = toNoun(received.event, run, nativeCrypto);
  if (noun?.type === 'unreadable') return noun.reason;
  if (noun?.type !== 'manifest') return 'stray';
  const judged = judgeSubmission(noun.manifest, noun.manifest.payload!, terms, sha256);
  return judged.ok ? 'admitted' : judged.rejection.reason;
}

const other = createLayout([{ name: 'w', shape: [layout.size + 3] }]);
const inTheNameOfAMember = { ...manifest({}, stranger), pubkey: member.publicKey };

/** Fragments, shards, stages and attestations come with the tiers that have them. */
const cases: readonly (readonly [string, RejectReason, unknown])[] = [
  ['not enrolled', 'not-a-member', manifest({}, stranger)],
  ['a past round', 'wrong-round', manifest({ round: 1 })],
  ['a future round', 'wrong-round', manifest({ round: 3 })],
  ['wrong quantization', 'unknown-codec', manifest({ codec: 'int8' })],
  ['wrong kind of payload', 'wrong-shape', manifest({}, member, payloadOf(other))],
  ['no commitment to a history', 'uncommitted', manifest({ parent: undefined })],
  ['a bad signature', 'bad-signature', forgedTwin(manifest())],
  ['the signer is not the worker', 'bad-id', inTheNameOfAMember],
];

describe('T-04: admission to a certified round is fail-closed', () => {
  it('takes what is in order', () => {
    expect(admit(manifest())).toBe('admitted');
  });

  it.each(cases)('%s is refused as %s', (_name, reason, event) => {
    expect(admit(event)).toBe(reason);
  });

  it('every case has a reason of its own; past and future share one', () => {
    const reasons = new Set(cases.map(([, reason]) => reason));
    expect(reasons.size).toBe(cases.length - 1);
  });

  it.each<readonly [string, RejectReason, unknown]>([
    ['another history', 'base-mismatch', manifest({ parent: 'c'.repeat(64) })],
    ['other bits', 'base-mismatch', manifest({ base: 'c'.repeat(64) })],
    ['another roster', 'other-roster', manifest({ roster: 'c'.repeat(64) })],
    ['too much of it', 'too-large', manifest({}, member, new Uint8Array(40_000))],
    ['unsigned', 'unsigned', { ...manifest(), sig: undefined }],
    ['altered', 'bad-id', { ...manifest(), content: '{}' }],
    ['not to be read', 'malformed', member.sign({ ...manifest(), content: '{}' })],
  ])('so is %s, as %s', (_name, reason, event) => {
    expect(admit(event)).toBe(reason);
  });
});
