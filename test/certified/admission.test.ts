import { sha256, systemClock, utf8 } from 'nostrain/base';
import {
  assignmentOf,
  createEvidenceStore,
  type RoundParameters,
  roundParametersOf,
  toProtocolMessage,
  unwrapRuling,
} from 'nostrain/certified/parts';
import {
  buildManifest,
  encodePayload,
  Handed,
  Inbox,
  type LocalManifest,
  type SignedEvent,
  type Signer,
} from 'nostrain/network';
import { nativeCrypto } from 'nostrain/node';
import { encodeNstr } from 'nostrain/python/parts';
import type { RejectReason } from 'nostrain/run';
import { CHUNK_LENGTH, createLayout } from 'nostrain/tensor';
import { describe, expect, it } from 'vitest';
import { judgeSubmission } from '../../src/certified/decisions/contributions.ts';
import { historyBy } from '../../src/certified/wire/certified-events.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { scopeOf } from '../support/drawn-delta.ts';
import { packWhole } from '../support/pack-whole.ts';
import { forgedTwin } from '../support/signers.ts';

/** State after two rounds; members 1 to 4 are in the roster of the third. */
const { run, state } = generateRun([{}, {}], certifiedSpec());
const roundParameters = unwrapRuling(roundParametersOf(state, createEvidenceStore()));
const { layout } = state.params;
const life = { createdAt: 1_790_000_500, expiresAt: 2_500_000_000 };
const member = signerOf(2);
const stranger = signerOf(9);

const { round, parent, modelRoot: base } = state;
const roster = assignmentOf(roundParameters).digest;
const payloadOf = (size = layout.size): Uint8Array =>
  packWhole(new Float64Array(size).fill(0.5), { run, round, roster });

/** A valid contribution to the third round, except for `changed`. */
function manifest(
  change: Partial<LocalManifest> = {},
  signer: Signer = member,
  payload = payloadOf(),
): SignedEvent {
  const own = { run, round, parent, base, codec: 'int8', roster, examples: 8, steps: 4 };
  return signer.sign(buildManifest({ ...own, ...change }, payload, life).draft);
}

/** The third round of a similar run with three chunks, of which the first two move now. */
const wide = createLayout([{ name: 'w', shape: [2 * CHUNK_LENGTH + 5] }]);
const { spec } = roundParameters;
const fragmented = {
  ...spec.training,
  fragments: 2,
  packing: 'trellis',
  residual: 'none',
} as const;
const inFragments: RoundParameters = {
  ...roundParameters,
  layout: wide,
  ledger: { ...roundParameters.ledger },
  spec: { ...spec, training: fragmented, limits: { ...spec.limits, payloadBytes: 65_536 } },
};

/** A payload of these chunks in that run's packing. */
function packed(...chunks: readonly number[]): Uint8Array {
  const place = { run: sha256(utf8(run)), round: state.round, roster: new Uint8Array(32) };
  const scope = { ...scopeOf(wide.size, chunks), ...place };
  const delta = new Float64Array(wide.size).fill(0.5);
  return encodePayload(delta, { codec: 'trellis', kept: 250 }, scope).payload;
}

/** The checks of a worker on an event from a relay, in order. */
function admit(raw: unknown, to = roundParameters): RejectReason | 'admitted' | 'stray' {
  const inbox = new Inbox(nativeCrypto, systemClock);
  const received = inbox.receive(
    { type: 'event', subscription: 's', event: raw, isPlain: false },
    historyBy(run, [member.publicKey, stranger.publicKey]),
    new Handed(100, systemClock),
  );
  if (received.verdict === 'refused') return received.reason;
  if (received.verdict !== 'new') return 'stray';
  const message = toProtocolMessage(received.event, run, nativeCrypto);
  if (message?.type === 'unreadable') return message.reason;
  if (message?.type !== 'manifest') return 'stray';
  const judged = judgeSubmission(message.manifest, message.manifest.payload!, to, sha256);
  return judged.ok ? 'admitted' : judged.rejection.reason;
}

const inTheNameOfAMember = { ...manifest({}, stranger), pubkey: member.publicKey };

const halves = { layout: wide, values: new Float64Array(wide.size).fill(0.5) };
const nstrPayload = encodeNstr(halves, { ratio: 1 }).container;
const inTrellis = (payload: Uint8Array) => manifest({ codec: 'trellis-250' }, member, payload);

/** Stages, sealed shards and attestations are tested with the tiers that have them. */
const cases: readonly (readonly [string, RejectReason, unknown, to?: RoundParameters])[] = [
  ['not enrolled', 'not-a-member', manifest({}, stranger)],
  ['a past round', 'wrong-round', manifest({ round: 1 })],
  ['a future round', 'wrong-round', manifest({ round: 3 })],
  ['wrong quantization', 'unknown-codec', manifest({ codec: 'nstr' })],
  ['a fragment of another round', 'wrong-shape', inTrellis(packed(2)), inFragments],
  ['another kind of payload', 'malformed', inTrellis(nstrPayload), inFragments],
  ['no commitment to a history', 'uncommitted', manifest({ parent: undefined })],
  ['a bad signature', 'bad-signature', forgedTwin(manifest())],
  ['the signer is not the worker', 'bad-id', inTheNameOfAMember],
];

describe('T-04: admission to a certified round is fail-closed', () => {
  it('accepts a valid contribution', () => {
    expect(admit(manifest())).toBe('admitted');
    expect(admit(inTrellis(packed(0, 1)), inFragments)).toBe('admitted');
  });

  it('is decoded once, however often it is judged', () => {
    const read = toProtocolMessage(manifest(), run, nativeCrypto);
    if (read?.type !== 'manifest') throw new Error('not a manifest');
    const payload = read.manifest.payload!;
    const judged = judgeSubmission(read.manifest, payload, roundParameters);
    expect(judgeSubmission(read.manifest, payload, { ...roundParameters })).toBe(judged);
    // other bytes, or another round, are judged separately
    expect(judgeSubmission(read.manifest, payload.slice(), roundParameters)).not.toBe(judged);
    expect(judgeSubmission(read.manifest, payload, inFragments)).not.toBe(judged);
  });

  for (const [name, reason, event, to] of cases) {
    it(`${name} is refused as ${reason}`, () => {
      expect(admit(event, to)).toBe(reason);
    });
  }

  const others: readonly (readonly [string, RejectReason, unknown])[] = [
    ['another shape', 'wrong-shape', manifest({}, member, payloadOf(layout.size + 3))],
    ['another history', 'base-mismatch', manifest({ parent: 'c'.repeat(64) })],
    ['other bits', 'base-mismatch', manifest({ base: 'c'.repeat(64) })],
    ['packed otherwise than it says', 'malformed', manifest({ codec: 'trellis-250' })],
    ['another roster', 'other-roster', manifest({ roster: 'c'.repeat(64) })],
    ['too much of it', 'too-large', manifest({}, member, new Uint8Array(40_000))],
    ['unsigned', 'unsigned', { ...manifest(), sig: undefined }],
    ['altered', 'bad-id', { ...manifest(), content: '{}' }],
    ['not to be read', 'malformed', member.sign({ ...manifest(), content: '{}' })],
  ];

  it.each(others)('so is %s, as %s', (_name, reason, event) => {
    expect(admit(event)).toBe(reason);
  });

  it('every case has its own reason, twelve with the others; past and future rounds share one', () => {
    const reasons = new Set(cases.map(([, reason]) => reason));
    expect(reasons.size).toBe(cases.length - 1);
    expect(new Set([...cases, ...others].map(([, reason]) => reason)).size).toBe(12);
  });
});
