/**
 * What the spec of a world asks for beyond the usual: each feature draws a part of the document of a spec. A new one is
 * an object in the list below.
 */
import type { Untyped } from 'nostrain/run';
import { keyOf } from '../support/swarm.ts';
import { firstTable, STAKE_PERIOD } from './chain.ts';
import type { Draws } from './draws.ts';
import { REPLICAS } from './holders.ts';
import type { World } from './world.ts';

/** Parts of a run spec, as plain data. */
export type Document = Untyped;

export interface WorldFeature {
  readonly name: string;
  /** Share of the worlds that try it. */
  readonly chance: number;
  /** Returns a part of a document; undefined if the world does not suit it. */
  draw(draws: Draws, world: World): Document | undefined;
}

/** Creates a feature with one form. */
const fixed = (name: string, chance: number, document: Document): WorldFeature => ({
  ...{ name, chance },
  draw: () => document,
});

/** Returns the keys of workers that join. */
const newcomers = ({ workers, founders }: World): readonly string[] =>
  Array.from({ length: workers - founders }, (_, i) => keyOf(founders + i));

/** Only named keys take part, and a rule withstands some hostile rows. */
const verified: WorldFeature = {
  name: 'verified',
  chance: 0.25,
  draw(draws, world) {
    const [rule, before] = [draws.pick(rules), draws.pick(['nothing', 'nnm', 'bucketing'])];
    const admission = { kind: 'list', keys: newcomers(world) };
    return {
      ...{ tier: 'verified', admission },
      aggregation: { rule, before, hostile: Math.max(1, (world.founders - 1) >> 2) },
      training: { packing: 'int8' },
    };
  },
};

const rules = [
  ...['trimmed-mean', 'coordinate-median', 'krum', 'multi-krum', 'geometric-median'],
  'centered-clip',
] as const;

/** A model of two chunks, of which workers send a part. */
const PARTS = { model: 'mlp', hidden: [900], packing: 'int8' } as const;

/** A model whose payload is larger than one chunk. */
const CHUNKED = { model: 'mlp', hidden: [12_000], packing: 'int8' } as const;

/** Seconds from an outcome to the block that counts: as short as the largest difference of clocks allows. */
export const BEACON_LAG = 181;

export const isInChunks = ({ training }: Document): boolean =>
  JSON.stringify((training as Document | undefined)?.hidden) === JSON.stringify(CHUNKED.hidden);

export const features: readonly WorldFeature[] = [
  verified,
  {
    name: 'jury',
    chance: 0.15,
    draw: (draws) => ({
      jury: draws.whole(1, 3),
      rerun: { permille: draws.pick([300, 1000]), relays: ['wss://relay0.example'] },
    }),
  },
  {
    name: 'committee',
    chance: 0.3,
    draw: (draws, { workers }) => ({
      committee: { size: draws.whole(Math.min(4, workers), workers) },
    }),
  },
  fixed('defer', 0.4, { late: 'defer' }),
  {
    name: 'slices',
    chance: 0.1,
    draw: (_, { workers, founders, document }) =>
      founders < workers && document.training === undefined
        ? { tiers: 2, joinsPerRound: 4 }
        : undefined,
  },
  {
    name: 'sample',
    chance: 0.2,
    draw: (_, { workers }) => ({ contributors: Math.max(2, workers - 1) }),
  },
  fixed('screening', 0.2, { screening: true }),
  fixed('scores', 0.2, { scores: true }),
  fixed('fragments', 0.08, { training: { ...PARTS, fragments: 2 } }),
  fixed('chunks', 0.03, { training: CHUNKED }),
  fixed('owners', 0.08, { training: { ...PARTS, owners: 2, residual: 'none' } }),
  {
    name: 'checkpoints',
    chance: 0.5,
    draw: (draws) => ({ checkpoint: { every: draws.whole(1, 4), keep: draws.whole(1, 3) } }),
  },
  fixed('foundersDecide', 0.3, { foundersDecide: true }),
  {
    name: 'pace',
    chance: 0.1,
    // steps that are run again take as long as all
    draw: (draws, { document }) =>
      document.jury === undefined
        ? { pace: { innerSeconds: draws.whole(3, 12), leastSteps: draws.whole(1, 2) } }
        : undefined,
  },
  {
    name: 'stakes',
    chance: 0.1,
    draw: (draws) => ({
      stake: {
        source: 'evm',
        snapshot: firstTable(),
        period: STAKE_PERIOD,
        every: draws.whole(0, 2),
      },
      committee: { weights: 'stake' },
    }),
  },
  fixed('beacon', 0.06, { beacon: { kind: 'block', lagSeconds: BEACON_LAG, chain: 'eip155:1' } }),
  {
    name: 'placement',
    chance: 0.1,
    draw: (draws) => ({
      checkpoint: { every: draws.whole(1, 2), keep: 2 },
      placement: { objects: { checkpoint: { replicas: REPLICAS } } },
    }),
  },
  fixed('seatWishes', 0.15, { seatWishes: true }),
  {
    name: 'sessions',
    chance: 0.15,
    // newcomers take part in the names of keys that no list has
    draw: (_, { document }) => (document.admission === undefined ? { sessions: true } : undefined),
  },
  {
    name: 'machines',
    chance: 0.4,
    // only joins of newcomers may be refused
    draw: (_, { workers, founders }) =>
      founders < workers ? { machines: 'simulated' } : undefined,
  },
];

/** Merges two parts of a document, section by section. */
export function overlay(before: Document, added: Document): Document {
  const sections = Object.entries(added).map(([name, value]) => {
    const old = before[name];
    return [name, isSection(old) && isSection(value) ? { ...old, ...value } : value] as const;
  });
  return { ...before, ...Object.fromEntries(sections) };
}

const isSection = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
