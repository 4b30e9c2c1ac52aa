/** Groups of experts: the form of the option `groups`, and in which rounds a group trains what. */
import { type Reader, reading } from './field.ts';
import { MOST_EXPERTS } from './spec/model-spec.ts';

/** Workers that train the same experts, usually on a corpus of their own. */
export interface ExpertGroup {
  readonly name: string;
  readonly experts: readonly number[];
}

const GROUP = /^([A-Za-z][A-Za-z0-9_-]{0,31})=(\d{1,2}(?:,\d{1,2})*)$/;

function readGroup(text: string): ExpertGroup | undefined {
  const [, name, experts] = GROUP.exec(text) ?? [];
  return name === undefined ? undefined : { name, experts: experts!.split(',').map(Number) };
}

/** A list of texts like `shakespeare=0,1`, or one text of them all: `shakespeare=0,1,code=2,3`. */
export const groupTexts = (): Reader<readonly string[]> =>
  reading(`at most ${MOST_EXPERTS} groups like shakespeare=0,1`, (value) => {
    const parts: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (!parts.every((part) => typeof part === 'string')) return undefined;
    // a comma before a letter ends a group; the others are between its experts
    const list = parts.join(',').split(/,(?=[A-Za-z])/);
    const groups = list.filter((text) => text !== '');
    return groups.length <= MOST_EXPERTS && groups.every(readGroup) ? groups : undefined;
  });

/** The settings of a mixture of experts: the section `mixture` of a spec. */
export interface Mixture {
  readonly experts: number;
  /** Each like `shakespeare=0,1`. */
  readonly groups: readonly string[];
  readonly warmupRounds: number;
  /** After the warm-up, shared tensors move in every n-th round; 0: never. */
  readonly sharedEvery: number;
}

/** Returns the groups of a mixture, in their order. */
export const groupsOf = ({ groups }: Pick<Mixture, 'groups'>): readonly ExpertGroup[] =>
  groups.map((text) => readGroup(text)!);

/** Reports whether the groups have different names, and each expert is in exactly one of them. */
export function areDisjoint(mixture: Pick<Mixture, 'experts' | 'groups'>): boolean {
  const groups = groupsOf(mixture);
  const assigned = groups.flatMap(({ experts }) => experts).sort((a, b) => a - b);
  const names = new Set(groups.map(({ name }) => name));
  if (groups.length === 0) return true;
  const isComplete = assigned.length === mixture.experts && assigned.every((n, i) => n === i);
  return isComplete && names.size === groups.length;
}

/**
 * Returns which tensors move in a round: all for every worker during the warm-up, afterwards each group's own experts,
 * in some rounds together with the shared tensors.
 */
export function partsInRound(
  { groups, warmupRounds, sharedEvery }: Omit<Mixture, 'experts'>,
  round: number,
): 'all' | 'shared' | 'own' {
  if (groups.length === 0 || round < warmupRounds) return 'all';
  return sharedEvery > 0 && (round - warmupRounds + 1) % sharedEvery === 0 ? 'shared' : 'own';
}
