/** Forks: the certified state of a parent run from which another run starts, rebuilt by replay of the parent. */
import { ConfigError } from '../../base/errors.ts';
import { modelRoot } from '../../consensus/roots.ts';
import type { Sha256 } from '../../network/event-crypto.ts';
import type { Digest } from '../../run/ids.ts';
import type { Parent } from '../../run/spec/parent.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import type { Params } from '../../tensor/params.ts';
import { openingOf } from '../decisions/chain.ts';
import { hasModel, replay } from '../decisions/replay.ts';
import { type HistoryOptions, type Opened, openHistory } from './archive.ts';

/** Returns the model root of parameters without momentum. */
export const firstRootOf = (params: Params, hash?: Sha256): Digest =>
  modelRoot({ params, momentum: params.values.slice().fill(0) }, hash);

/** Maximum generations of forks that are replayed for one state. */
const MOST_GENERATIONS = 8;

export interface ForkOptions extends Omit<HistoryOptions, 'run' | 'spec'> {
  /** Returns the events of a parent, from relays or a file. */
  open(parent: Pick<Parent, 'run' | 'author' | 'relays'>): Promise<Opened>;
  /** Returns the first parameters of a parent that trains all of a published model. */
  first?(spec: RunSpec): Promise<Float32Array | undefined>;
}

/** A certified state of a run, and the outcome that certifies it. */
export interface ForkPoint {
  readonly spec: RunSpec;
  readonly outcome: Digest;
  readonly root: Digest;
  /** Root of the parameters without momentum. */
  readonly first: Digest;
  readonly params: Params;
}

/**
 * Returns the parameters from which a fork starts; undefined for a run that is no fork. Throws `fork/parent` if they
 * are not those of its lineage.
 */
export async function firstOfFork(
  { parent }: RunSpec,
  options: ForkOptions,
  generation = 1,
): Promise<Float32Array | undefined> {
  if (parent === null) return undefined;
  const { run, rounds, root } = parent;
  const state = await forkPointOf(parent, options, generation);
  if (state.root === root && state.first === parent.first) {
    return Float32Array.from(state.params.values);
  }
  throw new ConfigError(
    'fork/parent',
    `run ${run} has model root ${state.root} after ${rounds} rounds, the fork claims ${root}`,
    { hint: 'do not join this run: it does not start from what it names' },
  );
}

/**
 * Returns the state of a run after its first `rounds` rounds: from checkpoint chunks among its events, or recomputed.
 * Throws `fork/parent` if the rounds are not certified, or their payloads and checkpoints are gone.
 */
export async function forkPointOf(
  at: Pick<Parent, 'run' | 'author' | 'relays' | 'rounds'> & { readonly outcome?: Digest },
  options: ForkOptions,
  generation = 1,
): Promise<ForkPoint> {
  const { run, rounds, outcome } = at;
  if (generation > MOST_GENERATIONS) {
    throw lacking(at, `more than ${MOST_GENERATIONS} generations of forks lead to it`);
  }
  const archive = await options.open(at);
  const { spec, gathered } = await openHistory(archive, { ...options, run });
  const { sha256 } = options;
  const first = (await firstOfFork(spec, options, generation + 1)) ?? (await options.first?.(spec));
  const playing = replay(openingOf(spec, { first, sha256 }), gathered, outcome, sha256);
  for (let next = playing.next(); ; next = playing.next()) {
    const state = next.done ? next.value.state : next.value.before;
    const isThere = state.round === rounds && hasModel(state);
    if (isThere && (outcome === undefined || state.parent === outcome)) {
      const { params } = state;
      const first = firstRootOf(params, sha256);
      return { spec, outcome: state.parent, root: state.modelRoot, first, params };
    }
    if (next.done) throw lacking(at, `its events lead to ${state.round} rounds`);
  }
}

const lacking = ({ run, rounds }: Pick<Parent, 'run' | 'rounds'>, why: string) =>
  new ConfigError(
    'fork/parent',
    `the state of run ${run} after ${rounds} rounds cannot be rebuilt: ${why}`,
    { hint: 'name relays that still have its payloads or a checkpoint, or an earlier round' },
  );
