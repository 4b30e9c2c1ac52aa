import { sha256Hex, utf8 } from 'nostrain/base';
import type { Holder, PlacementPolicy } from 'nostrain/run';
import type { PlacementRule } from '../../../src/run/placement-policy.ts';

export const idOf = (name: string): string => sha256Hex(utf8(name));

export const holderOf = (name: string, said: Partial<Holder> = {}): Holder => ({
  key: idOf(name),
  region: 'europe',
  tier: 'known',
  weight: 1,
  classes: [],
  attested: {},
  ...said,
});

const ruleOf = (rule: Partial<PlacementRule>): PlacementRule => ({
  replicas: 3,
  minDistinct: { regions: 1, tiers: 1 },
  attested: [],
  only: { regions: [], tiers: [] },
  ...rule,
});

export const policyOf = (
  rule: Partial<PlacementRule>,
  policy: Partial<PlacementPolicy> = {},
): PlacementPolicy => ({
  onUnsatisfiable: 'fail',
  regions: [],
  tiers: [],
  attestors: [],
  maxOverShare: 15,
  objects: { chunk: ruleOf(rule) },
  ...policy,
});
