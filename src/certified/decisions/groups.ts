/**
 * Groups of experts in a certified run (docs/experts.md): which chunks a worker trains and sends in a round. Experts
 * fill whole chunks, and only chunks that a contribution covers move, so a group cannot change a bit of another.
 */
import { ConfigError } from '../../base/errors.ts';
import { groupOfMember } from '../../consensus/round/seats.ts';
import { modelOfRun } from '../../model/from-settings.ts';
import { expertRanges } from '../../model/parameters.ts';
import type { ChunkAssignment } from '../../run/contribution.ts';
import { groupsOf, partsInRound } from '../../run/groups.ts';
import type { Ledger } from '../../run/ledger.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { CHUNK_LENGTH, chunksIn, type Range } from '../../tensor/partial-vector.ts';

/**
 * Returns the index of a group by its name; -1 in a run without groups. Throws a ConfigError (`run/group`) if the run
 * has no group of this name.
 */
export function groupNamed({ mixture }: Pick<RunSpec, 'mixture'>, name: string): number {
  const names = groupsOf(mixture).map((group) => group.name);
  const index = names.indexOf(name);
  if (index >= 0 || (names.length === 0 && name === '')) return index;
  throw new ConfigError(
    'run/group',
    names.length === 0
      ? 'this run has no groups'
      : `the groups of this run are ${names.join(', ')}${name && `, not ${name}`}`,
    { hint: names.length === 0 ? 'leave group out' : 'name yours with --set group=NAME' },
  );
}

const laidOut = new WeakMap<RunSpec, readonly Range[]>();

/**
 * Returns the parts of the model whose contributions are bounded and averaged on their own: the shared tensors, then
 * each expert; undefined without experts.
 */
export function expertParts(spec: RunSpec): readonly Range[] | undefined {
  if (spec.mixture.experts === 0) return undefined;
  const parts = laidOut.get(spec) ?? expertRanges(modelOfRun(spec));
  laidOut.set(spec, parts);
  return parts;
}

/** Returns the chunks that each worker trains and sends in the round, out of those of a run without groups. */
export function assignGroups(
  all: ChunkAssignment,
  spec: RunSpec,
  { round, members }: Pick<Ledger, 'round' | 'members'>,
): ChunkAssignment {
  const parts = partsInRound(spec.mixture, round);
  if (parts === 'all') return all;
  const [shared, ...experts] = expertParts(spec)!.map(chunksIn);
  const common = parts === 'shared' ? shared! : [];
  const sent = groupsOf(spec.mixture).map((group) =>
    Uint32Array.from([...common, ...group.experts.flatMap((expert) => experts[expert]!)]).sort(),
  );
  const groups = new Map(members.map((member) => [member.key, groupOfMember(member)]));
  const none = new Uint32Array(0);
  return {
    ...all,
    moving: Uint32Array.from([...common, ...experts.flat()]),
    chunksOf: (worker) => sent[groups.get(worker) ?? -1] ?? none,
    most: Math.max(...sent.map(({ length }) => length)),
  };
}

/** Returns the parameters that a worker trains in the round; undefined if it trains all. */
export const trainedIn = (
  { mixture }: Pick<RunSpec, 'mixture'>,
  round: number,
  chunks: Uint32Array,
): readonly Range[] | undefined =>
  partsInRound(mixture, round) === 'all'
    ? undefined
    : Array.from(chunks, (chunk) => ({
        from: chunk * CHUNK_LENGTH,
        to: (chunk + 1) * CHUNK_LENGTH,
      }));
