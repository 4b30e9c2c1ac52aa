/**
 * All fields of a run spec outside `training`, `start` and `input`, one row each: meaning, form, default, flag. The
 * spec reader, `run create`, `run inspect` and docs/run-spec.md are generated from these rows.
 */
import { tcbStatuses, vendorNames } from '../../attest/evidence.ts';
import {
  choice,
  form,
  type Group,
  hash,
  key,
  keys,
  label,
  real,
  row,
  stake,
  type Values,
  whole,
  yesNo,
} from '../field.ts';
import { fields } from '../options.ts';
import { rowsIn } from '../settings.ts';
import { address, addresses, choices, measurements, recipients, relayUrls } from './list-fields.ts';

const DAY_MS = 86_400_000;
const MOST_ROUNDS = 1_000_000;
/** Maximum payload bytes, limited by the number of chunks; rounded down. */
const MOST_PAYLOAD = 2 ** 31;
const MOST_EVALUATION = 16 * 2 ** 20;
/** Maximum bits of join work: about half a minute on one core. */
const MOST_JOIN_WORK = 22;
/** Maximum number of follow lists from a trusted key to a newcomer. */
export const MOST_HOPS = 3;
/** Maximum unix seconds with ten digits. */
const MOST_SECONDS = 9_999_999_999;

const off = { default: false } as const;

/** Fields on the top level. */
export const plainFields = {
  profile: row('wire format', choice(['nostrain/1']), { default: 'nostrain/1' }),
  name: row('what people call the run', label(), { flag: '--name <name>' }),
  author: row('public key of the author of the spec', key()),
  founders: row('member of the first roster; repeatable', keys(), {
    flag: '--founder <key>',
    many: true,
  }),
  late: row('what happens to a contribution that is one round late', choice(['discard', 'defer']), {
    default: 'discard',
    feature: 'defer',
  }),
  tier: row(
    'anybody takes part, admitted keys, or attested machines',
    choice(['open', 'verified', 'confidential']),
    { flag: '--tier <name>', default: 'open', feature: 'tier' },
  ),
  screening: row('members refuse what raises the loss on their rows', yesNo(), {
    flag: '--screening',
    feature: 'screening',
    ...off,
  }),
  scores: row('members score each other; who harms has no seat', yesNo(), {
    flag: '--scores',
    feature: 'scores',
    ...off,
  }),
  telemetry: row('workers report losses, a text and their device', yesNo(), {
    flag: '--telemetry',
    feature: 'telemetry',
    ...off,
  }),
  places: row('Blossom servers that have checkpoints too', addresses(), {
    was: '--place',
    default: [],
    many: true,
    feature: 'places',
  }),
  jury: row('members that run each drawn contribution again; 0: none', whole(0, 64), {
    was: '--rerun-jury',
    default: 0,
    feature: 'jury',
  }),
  sessions: row('workers may train in the name of another key', yesNo(), {
    feature: 'sessions',
    ...off,
  }),
  seatWishes: row('workers say whether they want seats; hidden tabs want none', yesNo(), {
    feature: 'seats',
    ...off,
  }),
  foundersDecide: row(
    'strangers cannot decide: founders have a quorum, strangers a bounded weight',
    yesNo(),
    {
      feature: 'founders',
      ...off,
    },
  ),
  tiers: fields.tiers,
  notes: row('root of the notes that the text is; what their authors delete is left out', hash(), {
    default: '',
    feature: 'notes',
  }),
  dataFrom: row('address of the text of the run, for joiners', address(), {
    default: '',
    feature: 'address',
  }),
  minAcceptPermille: row(
    'share of timely contributions a proposal must list for a first vote',
    whole(0, 1000),
    { default: 666 },
  ),
  liveRounds: row(
    'final rounds since a worker was seen, up to which it has seats',
    whole(1, MOST_ROUNDS),
    { default: 3 },
  ),
  absentRounds: row(
    'final rounds without a sign, after which a worker is removed',
    whole(1, MOST_ROUNDS),
    { default: 10 },
  ),
  contributors: row('workers that a round draws; 0: all', whole(0, 65_535), {
    flag: '--contributors <n>',
    default: 0,
    feature: 'sample',
  }),
  foundersPerRound: row('founders an outcome lists; 0: all', whole(0, 1024), {
    default: 0,
    feature: 'founding',
  }),
  joinsPerRound: row('newcomers a round may list; 0: a quarter of the roster', whole(0, 1024), {
    default: 0,
  }),
} as const satisfies Group;

/** Fields of the sections with fixed members. */
export const groupFields = {
  committee: {
    size: row('seats (K); the roster when it is smaller', whole(1, 1024), { default: 64 }),
    quorum: row(
      'seats that decide: two thirds and one (bft), half and one (cft)',
      choice(['bft', 'cft']),
      { default: 'bft' },
    ),
    weights: row('chance of a seat, and weight of a contribution', choice(['equal', 'stake']), {
      default: 'equal',
    }),
    minStake: row('least stake for a seat and for contributions to count', stake(), {
      default: '0',
    }),
  },
  timing: {
    graceMinMs: row('shortest wait for contributions, unless all reported', whole(0, DAY_MS), {
      default: 5000,
    }),
    graceMaxMs: row('longest wait for contributions, training included', whole(1, 7 * DAY_MS)),
    deadlineC: row(
      'a round closes this many median absolute deviations after the median arrival',
      real(0, 1000),
      { default: 4 },
    ),
    viewMs: row('time for one proposal (a view); doubles up to three times', whole(100, DAY_MS), {
      default: 10_000,
    }),
    voidView: row(
      'view from which a round ends void; the committee when it is smaller',
      whole(1, 1024),
      { default: 4 },
    ),
    recoveryMs: row(
      'time without a decision until a recovery epoch; 0: never',
      whole(0, 7 * DAY_MS),
      { default: 600_000 },
    ),
    recoveryFloorPermille: row(
      'share of the roster that a recovery epoch needs; 0: one key, may fork',
      whole(0, 1000),
      { default: 501 },
    ),
    reorgDepth: row(
      'rounds back that a worker switches to a fork by itself',
      whole(0, MOST_ROUNDS),
      { default: 8 },
    ),
    skewMs: row('largest difference between clocks', whole(0, DAY_MS), { default: 60_000 }),
  },
  aggregation: rowsIn('aggregation'),
  pace: rowsIn('pace'),
  mixture: rowsIn('mixture'),
  rerun: {
    permille: row('contributions in a thousand that are drawn for recomputation', whole(0, 1000), {
      default: 0,
    }),
    bandPpm: row(
      'distance of a recomputed update that passes, in millionths',
      whole(0, 1_000_000),
      { default: 10_000 },
    ),
    relays: row('relay that private state is sent to, and to no other', relayUrls(), {
      was: '--rerun-relay',
      default: [],
      many: true,
    }),
  },
  sealed: {
    manifest: row(
      'hash of the manifest of the encrypted data that workers train on',
      form('tee:// and 64 lowercase hex digits', /^tee:\/\/[0-9a-f]{64}$/),
      { default: '' },
    ),
    id: row('random id of that data', hash(), { default: '' }),
    recipients: row('worker that can open a part of it, and its X25519 key', recipients(), {
      default: [],
      many: true,
    }),
  },
  machines: {
    vendors: row('vendors of machines that may join; none: any machine', choices(vendorNames), {
      default: [],
      many: true,
    }),
    measurements: row('code that these machines may run; none: any code', measurements(), {
      default: [],
      many: true,
    }),
    leastStatus: row('worst accepted state of their firmware', choice(tcbStatuses), {
      default: 'UpToDate',
    }),
  },
  limits: {
    payloadBytes: row('larger payloads are refused unread', whole(1, MOST_PAYLOAD)),
    normBoundC: row('norm bound in lower medians of the norms; 0 clips nothing', real(0, 1e6), {
      default: 1.5,
    }),
    weightCap: row('examples beyond which a contribution weighs no more', whole(1)),
  },
  checkpoint: {
    every: row('rounds between two checkpoints', whole(1, MOST_ROUNDS), { default: 10 }),
    keep: row('checkpoints that are kept', whole(1, 1000), { default: 3 }),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** Fields of the evaluation slice; the section is null if there is none. */
export const evaluationFields = {
  sha256: row('SHA-256 of the evaluation data of all workers', hash()),
  bytes: row('its length in bytes', whole(1, MOST_EVALUATION)),
  root: row('Merkle root of its chunks (kind 7811), by which it is fetched', hash()),
} as const satisfies Group;

const shards = row('parts the data is divided into', whole(1, 65_535));
const snapshot = row('id of the stake snapshot that the run starts with', hash());
const lagSeconds = row('least seconds from an outcome to the value that counts', whole(1, 86_400), {
  default: 150,
});
const QUICKNET =
  '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c' +
  '8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb' +
  '5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a';

/** Fields of the sections whose tag selects the other members. */
export const variantFields = {
  data: {
    corpus: {
      sha256: row('SHA-256 of the text that all workers train on', hash()),
      bytes: row('length of that text in bytes', whole(1)),
      form: row('how the text is divided among workers', choice(['interleaved', 'contiguous']), {
        default: 'interleaved',
      }),
      shards,
    },
    own: {},
    made: { shards },
  },
  stake: {
    none: {},
    file: { snapshot },
    event: { snapshot },
    evm: {
      snapshot,
      period: row('blocks from one snapshot to the next', whole(1), { default: 1 }),
      every: row('rounds from one snapshot to the next; 0: the first', whole(0, MOST_ROUNDS), {
        default: 0,
      }),
    },
    psyche: { snapshot },
  },
  beacon: {
    none: {},
    drand: {
      lagSeconds,
      publicKey: row(
        'key of the chain, signed on G1 and unchained like quicknet',
        form('192 lowercase hex digits, a point on G2', /^[0-9a-f]{192}$/),
        { default: QUICKNET },
      ),
      genesis: row('unix seconds of its first round', whole(1), { default: 1_692_803_367 }),
      periodSeconds: row('seconds between two of its rounds', whole(1, 86_400), { default: 3 }),
    },
    block: {
      lagSeconds,
      chain: row(
        'chain whose finalized block hashes count',
        form('an EVM chain like eip155:1', /^eip155:[1-9][0-9]{0,31}$/),
      ),
    },
  },
  admission: {
    open: {},
    list: {
      keys: row('key that may join in addition to the founders; repeatable', keys(), {
        flag: '--invite <key>',
        many: true,
      }),
    },
    work: {
      bits: row('leading zero bits of the work that a key does to join', whole(1, MOST_JOIN_WORK), {
        was: '--join-work',
      }),
    },
    stake: { least: row('stake that a key must have to join', stake(), { was: '--join-stake' }) },
    trust: {
      anchors: row('key whose word admits others', keys(), { was: '--trust-key', many: true }),
      by: row(
        'follow lists (kind 3), or rank assertions (NIP-85, kind 30382)',
        choice(['follows', 'assertions']),
        { was: '--trust-by', default: 'follows' },
      ),
      hops: row('most follow lists from a key of trust to a newcomer', whole(1, MOST_HOPS), {
        was: '--trust-hops',
        default: 1,
      }),
      rank: row('least rank that an assertion must state', whole(0, 100), {
        was: '--trust-rank',
        default: 0,
      }),
      since: row('unix seconds before which these do not count', whole(0, MOST_SECONDS), {
        was: '--trust-since',
        default: 0,
      }),
    },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Group>>>>;

type VariantName = keyof typeof variantFields;

/** The tag of each section with variants, its meaning and its default. */
export const variantTags = {
  data: { tag: 'kind', help: "data to train on: one text, each worker's own, or synthetic" },
  stake: { tag: 'source', help: 'where stakes come from', default: 'none' },
  beacon: { tag: 'kind', help: 'public randomness that enters each draw', default: 'none' },
  admission: { tag: 'kind', help: 'keys that may join', default: 'open' },
} as const satisfies Readonly<
  Record<VariantName, { readonly tag: string; readonly help: string; readonly default?: string }>
>;

/** Sections that belong to a feature as a whole; fields of the top level name their feature in their row. */
export const sectionFeatures = {
  aggregation: 'rule',
  pace: 'pace',
  mixture: 'experts',
  rerun: 'rerun',
  beacon: 'beacon',
  stake: 'stake',
  sealed: 'sealed',
  machines: 'machines',
} as const;

/** Returns the defaults of a table of fields. */
export const defaultsOf = (group: Group): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(group).flatMap(([name, { default: value }]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );

/** Default values of a spec; the rest follows from the model, the data and the author. */
export const specDefaults: Readonly<Record<string, unknown>> = {
  ...defaultsOf(plainFields),
  ...Object.fromEntries(
    Object.entries(groupFields).map(([name, group]) => [name, defaultsOf(group)]),
  ),
  evaluation: null,
  stake: { source: 'none' },
  beacon: { kind: 'none' },
  admission: { kind: 'open' },
};

type Variants<Tag extends string, T extends Readonly<Record<string, Group>>> = {
  readonly [K in keyof T]: { readonly [P in Tag]: K } & Values<T[K]>;
}[keyof T];

export type PlainValues = Values<typeof plainFields>;
export type GroupValues = {
  readonly [K in keyof typeof groupFields]: Values<(typeof groupFields)[K]>;
};
export type VariantValues = {
  readonly [K in VariantName]: Variants<(typeof variantTags)[K]['tag'], (typeof variantFields)[K]>;
};
export type Evaluation = Values<typeof evaluationFields>;
