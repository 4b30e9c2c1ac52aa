/**
 * Every field of a run spec beside its training settings, once: path, flag, meaning, accepted form, default. Types, flags,
 * reader and docs/run-spec.md come from here; the training settings are those of `settings.ts`.
 */
import { admissionFields, usualTrust } from '../admission.ts';
import { aggregationFields, tierField, usualAggregation } from '../aggregation.ts';
import { address, addresses, choice, real, whole, yesNo } from '../field.ts';
import { paceFields, usualPace } from '../pace.ts';
import { juryField, rerunFields, usualRerun } from '../rerun.ts';
import { learningFields } from './learning-fields.ts';
import { form, type Group, hash, key, keys, label, stake, type Values } from './spec-fields.ts';

const DAY_MS = 86_400_000;
const MOST_ROUNDS = 1_000_000;
/** As many bytes as the chunks of one payload can carry, rounded down. */
const MOST_PAYLOAD = 2 ** 31;
const MOST_EVALUATION = 16 * 2 ** 20;

/** Fields on the top level. */
export const plainFields = {
  profile: choice('--profile <name>', 'wire format', ['nostrain/1']),
  name: label('--name <name>', 'what people call the run; two runs may have one name'),
  author: key('--author <key>', 'public key of whoever made the spec'),
  founders: keys('--founder <key>', 'member of the first roster, which decides the first round'),
  late: choice('--late <policy>', 'what happens to a contribution that comes one round late', [
    'discard',
    'defer',
  ]),
  tier: tierField,
  screening: yesNo('--screening', 'members refuse what raises the loss on rows of their own'),
  scores: yesNo('--scores', 'members score each other on rows they share; who harms has no seat'),
  telemetry: yesNo('--telemetry', 'workers say their losses, a text and their device'),
  places: addresses('--place <url>', 'Blossom server that has checkpoints too'),
  jury: juryField,
  sessions: yesNo('--sessions', 'workers may train in the name of a key that signed so'),
  seatWishes: yesNo('--seat-wishes', 'workers say whether they want seats; hidden tabs want none'),
  tiers: learningFields.tiers,
  dataFrom: address('--data-from <url>', 'where the text of the run is; joiners are told'),
  minAcceptPermille: whole(
    '--min-accept-permille <n>',
    'share of the contributions a member holds in time that a proposal must list to get its first vote',
    0,
    1000,
  ),
  liveRounds: whole(
    '--live-rounds <n>',
    'a worker may sit on committees when it was seen in one of so many final rounds',
    1,
    MOST_ROUNDS,
  ),
  absentRounds: whole(
    '--absent-rounds <n>',
    'a worker not seen in so many final rounds leaves the roster',
    1,
    MOST_ROUNDS,
  ),
  contributors: whole('--contributors <n>', 'workers that a round draws; 0 means all', 0, 65_535),
  foundersPerRound: whole('--founders-per-round <n>', 'founders an outcome lists; 0: all', 0, 1024),
  joinsPerRound: whole(
    '--joins-per-round <n>',
    'newcomers a round may list; 0 means a quarter of the roster, at least one',
    0,
    1024,
  ),
} as const satisfies Group;

/** Fields of the objects that always have the same ones. */
export const groupFields = {
  committee: {
    size: whole('--committee-size <n>', 'seats (K); the roster when it is smaller', 1, 1024),
    quorum: choice(
      '--committee-quorum <rule>',
      'seats that decide: bft is two thirds and one, cft half and one, for friends',
      ['bft', 'cft'],
    ),
    weights: choice(
      '--committee-weights <rule>',
      'chance of a seat, and what contributions weigh',
      ['equal', 'stake'],
    ),
    minStake: stake(
      '--committee-min-stake <n>',
      'least stake with which a key may sit on a committee, and its contributions count',
    ),
  },
  timing: {
    graceMinMs: whole(
      '--timing-grace-min-ms <ms>',
      'a round waits at least so long for contributions, unless all live workers reported',
      0,
      DAY_MS,
    ),
    graceMaxMs: whole(
      '--timing-grace-max-ms <ms>',
      'a round waits at most so long for contributions, training included',
      1,
      7 * DAY_MS,
    ),
    deadlineC: real(
      '--timing-deadline-c <x>',
      'between the two, a round closes at the median of past arrivals plus this many times their median absolute deviation, taken as wider at first',
      { from: 0, to: 1000 },
    ),
    viewMs: whole(
      '--timing-view-ms <ms>',
      'time for one proposal to be decided (a view); doubles with each failed view, up to three times; at least 4 times the delay of the relays',
      100,
      DAY_MS,
    ),
    voidView: whole(
      '--timing-void-view <n>',
      'from this view on nothing is accepted and the round ends void; the committee when it is smaller',
      1,
      1024,
    ),
    recoveryMs: whole(
      '--timing-recovery-ms <ms>',
      'after this long without a decision the roster may draw another committee (a recovery epoch); 0 never',
      0,
      7 * DAY_MS,
    ),
    recoveryFloorPermille: whole(
      '--timing-recovery-floor-permille <n>',
      'share of the roster that must vote for a recovery epoch; 0 means that one key is enough and the run may fork',
      0,
      1000,
    ),
    reorgDepth: whole(
      '--timing-reorg-depth <n>',
      'a worker switches by itself to a fork that begins at most this many rounds back',
      0,
      MOST_ROUNDS,
    ),
    skewMs: whole('--timing-skew-ms <ms>', 'most that clocks may differ by', 0, DAY_MS),
  },
  aggregation: aggregationFields,
  pace: paceFields,
  rerun: rerunFields,
  limits: {
    payloadBytes: whole(
      '--limits-payload-bytes <n>',
      'larger payloads are refused unread',
      1,
      MOST_PAYLOAD,
    ),
    normBoundC: real(
      '--limits-norm-bound-c <x>',
      'norms above this many times the lower median are clipped to it; 0 clips nothing',
      { from: 0, to: 1e6 },
    ),
    weightCap: whole(
      '--limits-weight-cap <n>',
      'examples beyond which a contribution weighs no more',
      1,
    ),
  },
  checkpoint: {
    every: whole('--checkpoint-every <n>', 'rounds between two checkpoints', 1, MOST_ROUNDS),
    keep: whole('--checkpoint-keep <n>', 'checkpoints that are kept', 1, 1000),
  },
} as const satisfies Readonly<Record<string, Group>>;

/** Fields of the evaluation slice; the object is null where there is none. */
export const evaluationFields = {
  sha256: hash('--evaluation-sha256 <hash>', 'SHA-256 of what everybody evaluates on'),
  bytes: whole('--evaluation-bytes <n>', 'its length in bytes', 1, MOST_EVALUATION),
  root: hash(
    '--evaluation-root <hash>',
    'Merkle root of its chunks (kind 7811), by which it is fetched',
  ),
} as const satisfies Group;

const shards = whole('--data-shards <n>', 'parts the data is divided into', 1, 65_535);
const snapshot = hash(
  '--stake-snapshot <id>',
  'id of the stake snapshot the run starts with; the snapshot names its chain, its block and how it was read',
);
const lagSeconds = whole(
  '--beacon-lag-seconds <s>',
  'the first value of the beacon at least this many seconds after the outcome counts',
  1,
  86_400,
);
const EVM_CHAIN = /^eip155:[1-9][0-9]{0,31}$/;

/** Fields of the objects whose first field decides which others they have. */
export const variantFields = {
  data: {
    corpus: {
      sha256: hash('--data-sha256 <hash>', 'SHA-256 of the text everybody trains on'),
      bytes: whole('--data-bytes <n>', 'length of that text in bytes', 1),
      form: choice('--data-form <form>', 'how the text is divided among workers', [
        'interleaved',
        'contiguous',
      ]),
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
      period: whole(
        '--stake-period <n>',
        'blocks from one snapshot to the next, from the block of the first one on',
        1,
      ),
      every: whole(
        '--stake-every <n>',
        'rounds from one snapshot to the next; 0 keeps the first',
        0,
        MOST_ROUNDS,
      ),
    },
    psyche: { snapshot },
  },
  beacon: {
    none: {},
    drand: {
      lagSeconds,
      publicKey: form(
        '--beacon-public-key <hex>',
        "the chain's key; its rounds are signed on G1 and unchained, as those of quicknet",
        { accepted: '192 lowercase hex digits, a point on G2', is: /^[0-9a-f]{192}$/ },
      ),
      genesis: whole('--beacon-genesis <s>', 'unix seconds of its first round', 1),
      periodSeconds: whole(
        '--beacon-period-seconds <s>',
        'seconds between two of its rounds',
        1,
        86_400,
      ),
    },
    block: {
      lagSeconds,
      chain: form('--beacon-chain <id>', 'chain whose finalized block hashes count', {
        accepted: 'an EVM chain like eip155:1',
        is: EVM_CHAIN,
      }),
    },
  },
  admission: admissionFields,
} as const satisfies Readonly<Record<string, Readonly<Record<string, Group>>>>;

/** The field that decides which others an object has. */
export const variantTags = {
  data: 'kind',
  stake: 'source',
  beacon: 'kind',
  admission: 'kind',
} as const satisfies Readonly<Record<keyof typeof variantFields, string>>;

/** What a spec says where nobody said otherwise; the rest follows from the model, the data and the author. */
export const specDefaults = {
  profile: 'nostrain/1',
  late: 'discard',
  tier: 'open',
  screening: false,
  scores: false,
  telemetry: false,
  sessions: false,
  seatWishes: false,
  places: [],
  jury: 0,
  tiers: 0,
  dataFrom: '',
  minAcceptPermille: 666,
  liveRounds: 3,
  absentRounds: 10,
  contributors: 0,
  foundersPerRound: 0,
  joinsPerRound: 0,
  committee: { size: 64, quorum: 'bft', weights: 'equal', minStake: '0' },
  timing: {
    graceMinMs: 5000,
    deadlineC: 4,
    viewMs: 10_000,
    voidView: 4,
    recoveryMs: 600_000,
    recoveryFloorPermille: 501,
    reorgDepth: 8,
    skewMs: 60_000,
  },
  aggregation: usualAggregation,
  pace: usualPace,
  rerun: usualRerun,
  limits: { normBoundC: 1.5 },
  checkpoint: { every: 10, keep: 3 },
  evaluation: null,
  stake: { source: 'none' },
  beacon: { kind: 'none' },
  admission: { kind: 'open' },
} as const;

/** The same of the fields that an object has only sometimes. drand is its quicknet. */
export const variantDefaults = {
  data: { corpus: { form: 'interleaved' }, own: {}, made: {} },
  stake: { none: {}, file: {}, event: {}, evm: { period: 1, every: 0 }, psyche: {} },
  beacon: {
    none: {},
    drand: {
      lagSeconds: 150,
      publicKey:
        '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a',
      genesis: 1_692_803_367,
      periodSeconds: 3,
    },
    block: { lagSeconds: 150 },
  },
  admission: { open: {}, list: {}, work: {}, stake: {}, trust: usualTrust },
} as const;

type Variants<Tag extends string, T extends Readonly<Record<string, Group>>> = {
  readonly [K in keyof T]: { readonly [P in Tag]: K } & Values<T[K]>;
}[keyof T];

export type PlainValues = Values<typeof plainFields>;
export type GroupValues = {
  readonly [K in keyof typeof groupFields]: Values<(typeof groupFields)[K]>;
};
export type VariantValues = {
  readonly [K in keyof typeof variantFields]: Variants<
    (typeof variantTags)[K],
    (typeof variantFields)[K]
  >;
};
export type Evaluation = Values<typeof evaluationFields>;
