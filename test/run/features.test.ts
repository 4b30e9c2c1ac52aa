/** The extension rule of the format, shown on a feature that exists only here and adds a field to every content. */

import { ConfigError, sha256Hex, utf8 } from 'nostrain/base';
import { buildMember, buildVote, toCheckpointClaim, toVote } from 'nostrain/certified/parts';
import { firstLedger } from 'nostrain/consensus';
import {
  buildManifest,
  buildPresence,
  type EventDraft,
  readManifest,
  toPresence,
} from 'nostrain/network';
import {
  canonicalSpec,
  featureSet,
  features,
  type Ledger,
  ledgerBytes,
  ledgerRoot,
  noFeatures,
  type Outcome,
  outcomeBody,
  outcomeDigest,
  parseLedger,
  parseOutcome,
  readSpec,
  tierFeatures,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { canonicalJson, type Json } from '../../src/base/canonical-json.ts';
import { publishedDraft } from '../../src/certified/wire/checkpoints.ts';
import { toMember } from '../../src/certified/wire/messages.ts';
import type { Feature, FeatureSet, FeatureTable } from '../../src/run/spec/features.ts';
import { outcomeWith } from '../support/large-bodies.ts';
import { keyOf } from '../support/members.ts';
import { rulesOf } from '../support/run-history.ts';
import { sampleDocument } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const color = {
  accepted: 'red or blue',
  doc: 'what it looks like',
  read: (json: Json) => (json === 'red' || json === 'blue' ? json : undefined),
};
const fields = { color };
const paint: Feature = {
  says: 'everything has a color',
  spec: { paint: { absent: 'none', read: ({ paint: said }) => said } },
  ...{ join: fields, vote: fields, heartbeat: fields, checkpoint: fields, manifest: fields },
  ...{ ledger: fields, member: fields, outcome: fields },
};
const table: FeatureTable = { ...features, paint };
const painted = featureSet(['paint'], table);
/** Nobody's type knows it. */
const red = { features: { paint: { color: 'red' } } } as object;

const run = 'a'.repeat(64);
const life = { createdAt: 1_790_000_000, expiresAt: 1_790_086_400 };
const position = { run, round: 3, attempt: 0, parent: run, ctx: run, view: 1, digest: run };
const beat = {
  ...{ worker: signerOf(1).publicKey, round: 1, intervalSeconds: 30, examples: undefined },
  ...{ capabilities: [], relays: [], digest: undefined, cohort: undefined, leaving: false },
  createdAt: life.createdAt,
};
const context = { run, nowSeconds: life.createdAt, maxMissed: 3 };
const state = {
  ...{ run, round: 1, outcome: run, modelRoot: run, ledgerRoot: run },
  ...{ model: [new Uint8Array(8)], ledger: new Uint8Array(8) },
};

/** Each event: how it is made with and without what a feature adds, and what is read of it with these features. */
const events: readonly {
  readonly name: string;
  build(more: object): EventDraft;
  read(draft: EventDraft, set: FeatureSet): unknown;
}[] = [
  {
    name: 'join',
    build: (more) =>
      buildMember({ type: 'join', run, after: run, tip: run, evidence: '', ...more }, life),
    read: (draft, set) => acceptedValue(toMember(signerOf(1).sign(draft), set)),
  },
  {
    name: 'vote',
    build: (more) =>
      buildVote(
        { ...position, type: 'vote', step: 'commit', justify: -1, unlisted: [4], ...more },
        life,
      ),
    read: (draft, set) => acceptedValue(toVote(signerOf(1).sign(draft), set)),
  },
  {
    name: 'heartbeat',
    build: (more) => buildPresence(run, { ...beat, ...more }),
    read: (draft, set) => acceptedValue(toPresence(signerOf(1).sign(draft), context, set)),
  },
  {
    name: 'checkpoint',
    build: (more) => publishedDraft({ ...state, ...more }, life),
    read: (draft, set) => toCheckpointClaim(signerOf(1).sign(draft), run, set),
  },
  {
    name: 'manifest',
    build: (more) =>
      buildManifest(
        { run, round: 1, parent: run, base: run, codec: 'x', examples: 1, steps: 1, ...more },
        Uint8Array.of(1),
        life,
      ).draft,
    read: (draft, set) => acceptedValue(readManifest(signerOf(1).sign(draft), undefined, set)),
  },
];

const acceptedValue = (judged: { readonly ok: boolean; readonly value?: unknown }): unknown =>
  judged.ok ? judged.value : undefined;

describe.each(events)('a $name', ({ build, read }) => {
  it('has the field exactly when the run has the feature', () => {
    const [plain, colored] = [build({}), build(red)];
    expect(read(plain, noFeatures)).not.toHaveProperty('features');
    expect(read(colored, painted)).toMatchObject(red);
    expect(colored.content).toBe(canonicalJson(JSON.parse(colored.content)));
    expect(read(colored, noFeatures)).toBeUndefined();
    expect(read(plain, painted)).toBeUndefined();
    const green = build({ features: { paint: { color: 'green' } } });
    expect(read(green, painted)).toBeUndefined();
    const more = build({ features: { paint: { color: 'red', size: 1 } } });
    expect(read(more, painted)).toBeUndefined();
  });
});

describe('an outcome', () => {
  const outcome = { ...outcomeWith(2), ...red } as Outcome;

  it('has the field exactly when the run has the feature', () => {
    const body = outcomeBody(outcome);
    expect(parseOutcome(body, painted)).toEqual({ ok: true, value: outcome });
    expect(parseOutcome(body, noFeatures).ok).toBe(false);
    expect(parseOutcome(outcomeBody(outcomeWith(2)), painted).ok).toBe(false);
    expect(outcomeDigest(outcome)).not.toBe(outcomeDigest(outcomeWith(2)));
  });

  it('lists votes and joins with theirs', () => {
    const signature = { createdAt: 1, expiration: 2, sig: 'e'.repeat(128) };
    const said = {
      ...outcome,
      votes: {
        ...{ attempt: 0, view: 0, ctx: run },
        rows: [
          { index: 0, unlisted: [], ...signature, ...red },
          { index: 1, unlisted: [], ...signature, nonce: ['7', '8'], ...red },
        ],
      },
      joins: [{ key: run, after: run, tip: run, evidence: '', ...signature, ...red }],
    } as Outcome;
    const body = outcomeBody(said);
    expect(parseOutcome(body, painted)).toEqual({ ok: true, value: said });
    const colors = /,?"?features"?:?\{"paint":\{"color":"red"\}\}/;
    expect(parseOutcome(body.replace(colors, ''), painted).ok).toBe(false);
  });
});

it('a ledger has its fields, and so has each of its rows', () => {
  const plain = firstLedger(rulesOf());
  const members = plain.members.map((member) => ({ ...member, ...red }));
  const ledger = { ...plain, ...red, members } as Ledger;
  const parse = (each: Ledger, set: FeatureSet) =>
    parseLedger(ledgerBytes(each), ledgerRoot(each), set);
  expect(parse(ledger, painted)).toEqual({ ok: true, value: { ...ledger, entropy: null } });
  expect(parse(ledger, noFeatures).ok).toBe(false);
  expect(parse(plain, painted).ok).toBe(false);
  expect(parse({ ...ledger, members: plain.members }, painted).ok).toBe(false);
  expect(parse({ ...plain, members } as Ledger, painted).ok).toBe(false);
});

describe('a spec', () => {
  const document = sampleDocument();
  const plain = readSpec(document);

  it('names its features, and has their fields exactly then', () => {
    const spec = readSpec({ ...document, features: ['paint'], paint: 'red' }, table);
    const text = canonicalSpec(spec, table);
    expect(text).toContain('"features":["paint"]');
    expect(text).toContain('"paint":"red"');
    expect(readSpec(JSON.parse(text), table)).toEqual(spec);
    expect(canonicalSpec(plain)).not.toContain('paint');
    expect(sha256Hex(utf8(text))).not.toBe(sha256Hex(utf8(canonicalSpec(plain))));
    expect(canonicalSpec(readSpec(document, table), table)).toBe(canonicalSpec(plain));
  });

  const refusalOf = (value: unknown, of?: FeatureTable): readonly unknown[] => {
    try {
      readSpec(value, of);
      return [];
    } catch (error) {
      return error instanceof ConfigError ? [error.code, error.message, error.hint] : [error];
    }
  };

  it('is refused by the name of a feature that is not known here', () => {
    expect(refusalOf({ ...document, features: ['paint'], paint: 'red' })).toEqual([
      'spec/feature',
      'this run uses the feature "paint", which this program does not know',
      'it knows accuracy, address, admission, beacon, defer, experts, files, fork, founders, founding, input, jury, machines, notes, pace, placement, places, rerun, rule, sample, scores, screening, sealed, seats, sessions, stake, start, telemetry, tier, trust, widths; a later nostrain may know more',
    ]);
  });

  it('is refused with a field of a feature that it does not name, and without one that it names', () => {
    expect(refusalOf({ ...document, paint: 'red' }, table)[0]).toBe('spec/unknown');
    expect(refusalOf({ ...document, late: 'defer' })[0]).toBe('spec/unknown');
    expect(refusalOf({ ...document, features: ['defer'] })[0]).toBe('spec/missing');
    const silent = { ...document, features: ['defer'], late: 'discard' };
    expect(refusalOf(silent)[0]).toBe('spec/value');
    const reversed = { ...document, features: ['defer', 'beacon'] };
    expect(refusalOf(reversed)[0]).toBe('spec/value');
  });

  it('of version 1 is refused with what to do', () => {
    expect(refusalOf({ ...document, version: 1 })).toEqual([
      'spec/version',
      'this run uses format version 1; this program reads version 2',
      'create a new run: `nostrain run create`',
    ]);
    expect(refusalOf({ ...document, version: 3 })[0]).toBe('spec/version');
  });

  it('is completed by the features that its fields ask for', () => {
    const stake = { source: 'file', snapshot: keyOf(7) };
    const spec = readSpec(sampleDocument({ late: 'defer', stake }));
    expect(spec.features).toEqual(['defer', 'stake']);
    expect(plain.features).toEqual([]);
    expect(canonicalSpec(plain)).not.toMatch(/"late"|"stake"|"beacon"/);
  });
});

describe('MatFormer tiers', () => {
  const digest = 'a'.repeat(64);

  it.each([
    [{ widths: { rings: [] } }],
    [{ widths: { rings: Array(10).fill(digest) } }],
    [{ widths: { rings: ['b'] } }],
    [{ widths: { rings: digest } }],
    [{ widths: {} }],
    [{ widths: { rings: [digest], more: 1 } }],
    [undefined],
  ])('a manifest of a run with tiers that says %j is refused', (said) => {
    expect(tierFeatures.read('manifest', said).ok).toBe(false);
  });

  it('name the digests of slices in manifests and heartbeats, and joins name the tier in runs with a spec', () => {
    const said = { widths: { rings: [digest, 'b'.repeat(64)] } };
    expect(tierFeatures.read('manifest', said)).toEqual({ ok: true, value: said });
    expect(tierFeatures.read('heartbeat', said)).toEqual({ ok: true, value: said });
    expect(noFeatures.read('manifest', said).ok).toBe(false);
    const join = (tier: unknown) =>
      tierFeatures.read('join', { widths: { tier } } as Json as object).ok;
    expect([0, 8, 9, -1, 1.5, '1', null].map(join)).toEqual([true, true, ...Array(5).fill(false)]);
  });
});
