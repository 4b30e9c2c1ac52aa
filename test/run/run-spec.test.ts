import fc from 'fast-check';
import { ConfigError, sha256Hex, utf8 } from 'nostrain/base';
import { toNpub } from 'nostrain/node/parts';
import {
  canonicalSpec,
  contradictions,
  type Field,
  type Group,
  parseRunSpec,
  readSpec,
  runIdOf,
  settingNames,
  settingsOf,
  sharedNames,
  specRules,
  tierRules,
  trainingFields,
  type Untyped,
} from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { isObject } from '../../src/base/shape.ts';
import { localStepSettings, namesIn, ruleSettings } from '../../src/run/settings.ts';
import { groupFields, plainFields } from '../../src/run/spec/spec-table.ts';
import { groupedSpec } from '../support/groups.ts';
import { sampleDocument, sampleSpec } from '../support/run-spec.ts';
import { signerOf } from '../support/signers.ts';

const [alice, bob, carol] = [1, 2, 3].map((number) => signerOf(number).publicKey);
const HASH = 'ab'.repeat(32);

function problemOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'none';
}

const tables: Readonly<Record<string, Group>> = { ...groupFields, training: trainingFields };

/** The document with another accepted value in place of one leaf, for every leaf that has one. */
function changes(document: Untyped, path = ''): readonly (readonly [path: string, Untyped])[] {
  return Object.entries(document).flatMap(([name, value]): [string, Untyped][] => {
    if (isObject(value)) {
      return changes(value, name).map(([at, inner]) => [at, { ...document, [name]: inner }]);
    }
    const field: Field<unknown> | undefined = (tables[path] ?? (plainFields as Group))[name];
    const other = field && otherValue(field, value);
    return other === undefined ? [] : [[`${path}.${name}`, { ...document, [name]: other }]];
  });
}

/** Another word of a choice, a neighbour of a number, a longer name. */
function otherValue({ accepted, read }: Field<unknown>, value: unknown): unknown {
  const words = /^one of (.*)$/.exec(accepted)?.[1]?.split(', ') ?? [];
  const numbers = typeof value === 'number' ? [value + 1, value + 0.5, value / 2] : [];
  return [...words, ...numbers, `1${value}`, [1]].find((other) => {
    if (other === value) return false;
    return problemOf(() => read(other, '')) === 'none';
  });
}

const trimmed = { aggregation: { rule: 'trimmed-mean', hostile: 1 } };

/** A run of strangers that are admitted by their work, by a rule that withstands one of them. */
const verified = {
  tier: 'verified',
  admission: { kind: 'work', bits: 8 },
  aggregation: { rule: 'geometric-median', hostile: 1 },
};

const trusted = { joinsPerRound: 4, admission: { kind: 'trust', anchors: [HASH] } };
const rerun = { permille: 100, relays: ['wss://a.example'] };

const PAIR = `${alice}:${HASH}`;
/** A run on sealed data. */
const sealedSpec = (sealed: object = {}, machines: object = {}) =>
  sampleSpec({
    training: { model: 'char-gpt' },
    data: { kind: 'own' },
    sealed: { manifest: `tee://${HASH}`, id: HASH, recipients: [PAIR], ...sealed },
    machines: { vendors: ['amd-sev-snp'], measurements: [], leastStatus: 'UpToDate', ...machines },
  });

describe('run id', () => {
  it('is the hash of the canonical text, whatever order and spelling the file has', () => {
    const spec = sampleSpec();
    const text = canonicalSpec(spec);
    expect(runIdOf(spec)).toBe(sha256Hex(utf8(text)));
    expect(text.startsWith('{"absentRounds":10,"admission":{"kind":"open"},"author":"')).toBe(true);
    expect(text).not.toMatch(/\s"|: /);
    const document = JSON.parse(text);
    const reversed = Object.fromEntries(Object.entries(document).reverse());
    expect(runIdOf(readSpec(reversed))).toBe(runIdOf(spec));
    const friendly = { ...document, founders: [bob, toNpub(alice!)], author: toNpub(alice!) };
    expect(runIdOf(readSpec(friendly))).toBe(runIdOf(spec));
    expect(runIdOf(readSpec({ ...document, liveRounds: '3' }))).toBe(runIdOf(spec));
  });

  it('reads back what it wrote', () => {
    const spec = sampleSpec({ training: { localLearningRate: 1e-7, topk: 0.3 } });
    expect(parseRunSpec(canonicalSpec(spec))).toEqual(spec);
    expect(canonicalSpec(spec)).toContain('"localLearningRate":1e-7');
  });

  it('N-18: changes with every rule and every shared setting', () => {
    const document = JSON.parse(canonicalSpec(sampleSpec()));
    const ids = new Map([['as it is', runIdOf(readSpec(document))]]);
    const atOdds: string[] = [];
    for (const [path, changed] of changes(document)) {
      const problem = problemOf(() => ids.set(path, runIdOf(readSpec(changed))));
      if (problem !== 'none') atOdds.push(path);
    }
    // what features own is there where they are named
    const ruled = JSON.parse(canonicalSpec(sampleSpec(verified)));
    for (const [path, changed] of changes(ruled)) {
      const isOwn = path.startsWith('aggregation.') && path !== 'aggregation.rule';
      if (isOwn) ids.set(path, runIdOf(readSpec(changed)));
    }
    const checked = JSON.parse(canonicalSpec(sampleSpec({ rerun })));
    for (const [path, changed] of changes(checked)) {
      const problem = path.startsWith('rerun.') ? problemOf(() => readSpec(changed)) : '';
      if (problem === 'none') ids.set(path, runIdOf(readSpec(changed)));
    }
    const other = { ...rerun, relays: ['wss://b.example'] };
    ids.set('rerun.relays', runIdOf(sampleSpec({ rerun: other })));
    const timeBased = JSON.parse(canonicalSpec(sampleSpec({ pace: { innerSeconds: 30 } })));
    for (const [path, changed] of changes(timeBased))
      if (path.startsWith('pace.')) ids.set(path, runIdOf(readSpec(changed)));
    const grouped = (mixture: object) => runIdOf(groupedSpec([1], { mixture }));
    ids.set('mixture.experts', grouped({ experts: 3, groups: [] }));
    ids.set('mixture.expertsPerToken', grouped({ expertsPerToken: 1 }));
    ids.set('mixture.groups', grouped({ groups: ['a=0,2', 'b=1,3'] }));
    ids.set('mixture.warmupRounds', grouped({ warmupRounds: 2 }));
    ids.set('mixture.sharedEvery', grouped({ sharedEvery: 4 }));
    for (const [path, changed] of changes(JSON.parse(canonicalSpec(sealedSpec())))) {
      const isOwn = path.startsWith('sealed.') || path.startsWith('machines.');
      if (isOwn) ids.set(path, runIdOf(readSpec(changed)));
    }
    ids.set('sealed.manifest', runIdOf(sealedSpec({ manifest: `tee://${'c'.repeat(64)}` })));
    ids.set('sealed.id', runIdOf(sealedSpec({ id: 'c'.repeat(64) })));
    const recipients = [`${bob}:${HASH}`];
    ids.set('sealed.recipients', runIdOf(sealedSpec({ recipients })));
    ids.set('machines.vendors', runIdOf(sealedSpec({}, { vendors: ['aws-nitro'] })));
    const measurements = ['c'.repeat(96)];
    ids.set('machines.measurements', runIdOf(sealedSpec({}, { measurements })));
    const krum = { ...verified, aggregation: { rule: 'krum', hostile: 1 } };
    ids.set('aggregation.rule', runIdOf(sampleSpec(krum)));
    expect(new Set(ids.values()).size).toBe(ids.size);
    // these say something about another field, too
    expect(atOdds.sort()).toEqual([
      ...['committee.minStake', 'committee.weights', 'limits.weightCap'],
      ...['training.batchSize', 'training.innerSteps', 'training.maxExamples'],
      ...['training.model', 'training.packing'],
    ]);
    const covered = [...ids.keys(), ...atOdds];
    for (const name of sharedNames) expect(covered).toContain(`training.${name}`);
    for (const [group, fields] of Object.entries(groupFields)) {
      for (const name of Object.keys(fields)) expect(covered).toContain(`${group}.${name}`);
    }
  });

  it('holds no setting that is a worker’s own, and those of adapters and inputs in sections of their own', () => {
    const own = settingNames.filter((name) => !sharedNames.some((each) => each === name));
    expect(own.sort()).toEqual(
      [
        ...['run', 'profile', 'relay', 'shard', 'sync', 'roundTimeout', 'waitFor', 'joinTimeout'],
        ...[
          'heartbeatInterval',
          'maxMissedHeartbeats',
          'peers',
          'codec',
          'stripe',
          'checkpointHistory',
          'recompute',
          'precision',
          'accumulate',
          'evaluate',
          'tiers',
          'tier',
          'group',
          'helperRotation',
          'helper',
          'tierStrategy',
          ...settingNames.filter((name) => /^(validators|merge)/.test(name)),
        ],
        ...ruleSettings,
        ...localStepSettings,
        ...namesIn('mixture'),
        ...['base', 'basePrecision', 'rank', 'alpha', 'targets'],
        ...['horizon', 'patch', 'forecastError', 'scaling', 'pixels'],
      ].sort(),
    );
  });
});

describe('a spec is refused by path and accepted form', () => {
  const document = JSON.parse(canonicalSpec(sampleSpec()));
  const without = (name: string) => {
    const { [name]: _, ...rest } = document;
    return rest;
  };

  it.each<[object, RegExp]>([
    [{ ...document, colour: 1 }, /^colour is unknown/],
    [{ ...document, version: '2' }, /^version is "2"; it must be 2/],
    [
      { ...document, profile: 'nostrain/0' },
      /^profile is "nostrain\/0"; it must be one of nostrain\/1/,
    ],
    [{ ...document, name: 'a\nb' }, /^name is "a\\nb"; it must be 1 to 64 characters/],
    [{ ...document, author: 'npub1x' }, /^author is "npub1x"; it must be a public key/],
    [{ ...document, founders: [] }, /^founders is \[\]; it must be a list of 1 to 1024/],
    [{ ...document, founders: [alice, alice] }, /^founders is .*each once/],
    [
      { ...document, evaluation: 1 },
      /^evaluation is 1; it must be an object of sha256, bytes, root/,
    ],
    [
      { ...document, committee: { ...document.committee, size: 0 } },
      /^committee\.size is 0; .* 1 to 1024/,
    ],
    [
      { ...document, committee: { ...document.committee, seats: 3 } },
      /^committee\.seats is unknown/,
    ],
    [
      { ...document, committee: { ...document.committee, minStake: '1.5' } },
      /^committee\.minStake is "1\.5"/,
    ],
    [{ ...document, timing: { ...document.timing, viewMs: 'soon' } }, /^timing\.viewMs is "soon"/],
    [{ ...document, timing: [] }, /^timing is \[\]; it must be an object of graceMinMs/],
    [
      { ...document, limits: { ...document.limits, normBoundC: -1 } },
      /^limits\.normBoundC is -1; .*\[0, /,
    ],
    [
      { ...document, data: { kind: 'tape' } },
      /^data\.kind is "tape"; it must be one of corpus, own, made/,
    ],
    [
      { ...document, data: { kind: 'own', shards: 2 } },
      /^data\.shards is unknown where kind is own/,
    ],
    [
      { ...document, features: ['stake'], stake: { source: 'file' } },
      /^stake\.snapshot is missing; it must be 64 lowercase/,
    ],
    [
      { ...document, training: { ...document.training, rounds: 1.5 } },
      /^training\.rounds is 1\.5; .*whole/,
    ],
    [
      { ...document, training: { ...document.training, relay: [] } },
      /^training\.relay is not shared/,
    ],
    [{ ...document, training: { ...document.training, speed: 1 } }, /^training\.speed is unknown/],
    [
      { ...document, training: { ...document.training, layers: 1e15 } },
      /^training\.layers is 1000000000000000; it must be a whole number from 1 to 1024/,
    ],
    [
      { ...document, training: { ...document.training, hidden: Array(17).fill(1) } },
      /^training\.hidden is \[1,.*; it must be at most 16 sizes of at most 65536/,
    ],
    [without('joinsPerRound'), /^joinsPerRound is missing; it must be a whole number/],
    [without('admission'), /^admission is missing; it must be an object of kind/],
    [
      { ...document, features: ['beacon'] },
      /^beacon is missing; it must be present where features/,
    ],
    [without('features'), /^features is missing; it must be a list of feature names/],
    [without('evaluation'), /^evaluation is missing; it must be an object, or null/],
    [without('version'), /^version is missing/],
    [[], /^the spec is \[\]; it must be an object/],
  ])('case %#', (value, message) => {
    expect(problemOf(() => readSpec(value))).toMatch(message);
  });

  it.each<[string, Parameters<typeof sampleSpec>[0]]>([
    ['training.layers', { training: { model: 'gpt', layers: 1024, width: 4096 } }],
    ['training.width', { training: { model: 'gpt', heads: 3 } }],
    ['founders', { founders: [bob, carol] }],
    ['dataFrom', { features: ['address'], dataFrom: 'https://example.org/play.txt' }],
    ['notes', { features: ['notes'], notes: HASH }],
    ['sealed.manifest', { sealed: { manifest: `tee://${HASH}`, id: HASH, recipients: [PAIR] } }],
    ['machines.vendors', { machines: { vendors: ['aws-nitro'] } }],
    ['data.kind', { data: { kind: 'own' } }],
    ['data.kind', { training: { model: 'gpt' } }],
    ['evaluation', { evaluation: { sha256: HASH, bytes: 5, root: HASH } }],
    ['committee.weights', { committee: { weights: 'stake' } }],
    ['committee.minStake', { committee: { minStake: '1' } }],
    [
      'foundersDecide',
      {
        ...{ foundersDecide: true, stake: { source: 'file', snapshot: HASH } },
        committee: { weights: 'stake' },
      },
    ],
    ['beacon.lagSeconds', { beacon: { kind: 'drand', lagSeconds: 120 } }],
    ['timing.graceMinMs', { timing: { graceMinMs: 60_001 } }],
    ['absentRounds', { absentRounds: 2 }],
    ['late', { late: 'defer', training: { owners: 1 } }],
    ['admission.hops', { ...trusted, admission: { ...trusted.admission, rank: 5 } }],
    ['joinsPerRound', { ...trusted, joinsPerRound: 33 }],
    ['rerun.permille', { training: { model: 'gpt' }, data: { kind: 'own' }, rerun }],
    ['rerun.relays', { rerun: { permille: 100 } }],
    ['late', { late: 'defer', rerun }],
    ['contributors', { contributors: 8, late: 'defer' }],
    ['jury', { jury: 2 }],
    ['limits.weightCap', { limits: { weightCap: 5 } }],
    ['pace.leastSteps', { pace: { innerSeconds: 30, leastSteps: 10_000 } }],
    ['pace.leastSteps', { pace: { leastSteps: 2 } }],
    ['pace.innerSeconds', { pace: { innerSeconds: 30 }, training: { weights: 'equal' } }],
    ['admission.kind', { admission: { kind: 'stake', least: '1' } }],
    ['aggregation.hostile', { ...verified, aggregation: { rule: 'krum', hostile: 0 } }],
    ['aggregation.hostile', { aggregation: { hostile: 1 } }],
    ['aggregation.before', { aggregation: { before: 'nnm' } }],
    ['training.owners', { ...verified, training: { owners: 9 } }],
    ['training.owners', { ...verified, ...trimmed, training: { owners: 2 } }],
    ['training.residual', { training: { packing: 'trellis', residual: 'feedback' } }],
    ['training.normalize', { ...verified, training: { normalize: 'senders' } }],
    ['late', { ...verified, late: 'defer' }],
    [
      'committee.weights',
      {
        ...verified,
        stake: { source: 'file', snapshot: HASH },
        committee: { weights: 'stake' },
      },
    ],
  ])('at odds: %s', (at, change) => {
    expect(problemOf(() => sampleSpec(change))).toMatch(
      new RegExp(`^${at} is .*: it must be that`),
    );
  });

  it('names the feature of its admission, and no other', () => {
    const { features, ...rest } = sampleDocument(verified);
    expect(features).toEqual(['admission', 'rule', 'tier']);
    const found = problemOf(() => readSpec({ ...rest, features: ['rule', 'tier'] }));
    expect(found).toMatch(/^features is .*: it must be that admission is named exactly where/);
    const { features: named, ...other } = sampleDocument(trusted);
    expect(named).toEqual(['trust']);
    const silent = problemOf(() => readSpec({ ...other, features: [] }));
    expect(silent).toMatch(/^features is .*: it must be that trust is named exactly where/);
  });

  it('has a case above for every rule, or in start.test.ts, chunked-files.test.ts, input.test.ts, groups.test.ts or tier-rules.test.ts', () => {
    expect(specRules).toHaveLength(40 + 1 + 1 + 2 + 10 + tierRules.length);
  });

  it('takes every kind of data, stake, beacon and admission', () => {
    const evm = { source: 'evm', snapshot: HASH, period: 7200 };
    const staked = { weights: 'stake', minStake: '340282366920938463463374607431768211455' };
    const spec = sampleSpec({ stake: evm, committee: staked, beacon: { kind: 'drand' } });
    expect(spec.stake).toEqual({ ...evm, every: 0 });
    expect(spec.beacon).toMatchObject({ kind: 'drand', lagSeconds: 150, periodSeconds: 3 });
    const invited = sampleSpec({
      admission: { kind: 'list', keys: [carol] },
      stake: { source: 'psyche', snapshot: HASH },
      beacon: { kind: 'block', chain: 'eip155:1' },
    });
    expect(invited.admission).toEqual({ kind: 'list', keys: [carol] });
    const data = { kind: 'corpus', sha256: HASH, bytes: 10, shards: 2 };
    const text = sampleSpec({ training: { model: 'gpt' }, data });
    expect(text.data).toEqual({ ...data, form: 'interleaved' });
    const dataFrom = 'https://example.org/play.txt';
    const told = sampleSpec({ training: { model: 'gpt' }, data, dataFrom });
    expect(told).toMatchObject({ dataFrom, features: ['address'] });
    for (const other of ['http://example.org/a', 'https://a b', `https://${'a'.repeat(249)}`]) {
      const asked = { training: { model: 'gpt' }, data, dataFrom: other } as const;
      expect(problemOf(() => sampleSpec(asked))).toContain('an https address');
    }
  });

  it('never throws anything but a ConfigError, whatever the text', () => {
    fc.assert(fc.property(fc.json(), (text) => problemOf(() => parseRunSpec(text)) !== 'none'));
    const names = fc.constantFrom(...Object.keys(document));
    fc.assert(
      fc.property(names, fc.jsonValue(), (name, value) => {
        problemOf(() => readSpec({ ...document, [name]: value }));
      }),
    );
    expect(problemOf(() => parseRunSpec('{"a":', 'x.json'))).toBe('x.json is not JSON');
  });

  it('cuts a long value in what it says of it', () => {
    const founders = Array.from({ length: 1025 }, (_, i) => i.toString(16).padStart(64, '0'));
    expect(problemOf(() => sampleSpec({ founders }))).toMatch(
      /^founders is \["0{64}",.{1,140}… \(68676 characters\); it must be a list of 1 to 1024 public keys/,
    );
  });
});

describe('a worker of a run', () => {
  it('plays by the spec and chooses the rest', () => {
    const spec = sampleSpec({ training: { rounds: 9 } });
    const settings = settingsOf(spec, { relay: ['ws://a'], rounds: 3, heartbeatInterval: 7 });
    expect(settings).toMatchObject({
      ...{ run: runIdOf(spec), profile: 'nostrain/1', rounds: 9 },
      ...{ relay: ['ws://a'], heartbeatInterval: 7, roundTimeout: 60 },
    });
  });

  it('is told which of its settings contradict the spec', () => {
    const spec = sampleSpec();
    const asked = { rounds: 5, innerSteps: 3, hidden: [4], heartbeatInterval: 7, run: 'mine' };
    expect(contradictions(spec, asked)).toEqual([
      { name: 'hidden', requested: '[4]', spec: '[32]' },
      { name: 'innerSteps', requested: '3', spec: '80' },
      { name: 'run', requested: '"mine"', spec: JSON.stringify(runIdOf(spec)) },
    ]);
  });

  it('keeps what a document leaves out apart from what it says wrong', () => {
    expect(sampleDocument({ stake: { source: 'none', more: 1 } }).stake).toMatchObject({ more: 1 });
  });
});
