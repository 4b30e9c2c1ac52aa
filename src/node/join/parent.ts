/** The parent of a fork on a machine: reads its events from relays, within what a stranger may name. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveRun } from '../../certified/records/archive.ts';
import { type ForkOptions, firstOfFork, firstRootOf } from '../../certified/records/fork.ts';
import { layoutOfRun } from '../../model/from-settings.ts';
import { hintProblem } from '../../network/transport/relay-urls.ts';
import type { BeaconSource } from '../../run/committee.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { writeAtomically } from '../files/atomic-file.ts';
import { nativeCrypto } from '../native/event-crypto.ts';
import { nativeSha256 } from '../native/sha256.ts';
import { type RelayReach, withRelays } from '../net/relays.ts';
import type { BaseModel } from '../pretrained/base-model.ts';

export interface ParentReach extends RelayReach {
  /** Relays to ask in addition to those that the lineage names. */
  readonly relays: readonly string[];
  /** Allows relays in a private network that the lineage names. */
  readonly allowPrivateRelays?: boolean | undefined;
  readonly beacon?: ((spec: RunSpec) => BeaconSource | undefined) | undefined;
}

/** Maximum relays of a lineage that are asked. */
const MOST_HINTS = 8;

/** Returns the means to rebuild states of parents from relays. */
export function parentsOn(reach: ParentReach): ForkOptions {
  const { relays, allowPrivateRelays, signal } = reach;
  const { onNotice = () => undefined, beacon = () => undefined } = reach;
  const means = { sha256: nativeSha256, crypto: nativeCrypto, beacon, onNotice };
  const open: ForkOptions['open'] = ({ run, relays: hints }) => {
    const usable = hints.filter((url) => allowPrivateRelays || hintProblem(url) === undefined);
    const urls = [...new Set([...relays, ...usable.slice(0, MOST_HINTS)])];
    onNotice(`rebuilding a state of the parent run ${run.slice(0, 12)} from its events`);
    return withRelays(urls, reach, (session) => archiveRun(run, { ...session, ...means }));
  };
  return { ...means, signal, open };
}

/**
 * Returns the parameters from which a fork starts: those stored in the worker's folder, or rebuilt and then stored.
 * Undefined for a run that is no fork. Throws `fork/parent` if they cannot be rebuilt or are not what the spec names.
 */
export async function firstIn(
  dir: string,
  spec: RunSpec,
  reach: ParentReach,
  base?: Pick<BaseModel, 'first'>,
): Promise<Float32Array | undefined> {
  const { parent } = spec;
  if (parent === null) return undefined;
  const file = join(dir, 'parent.f32');
  const layout = layoutOfRun(spec);
  const bytes = await readFile(file).catch(() => undefined);
  if (bytes?.length === layout.size * Float32Array.BYTES_PER_ELEMENT) {
    const values = new Float32Array(new Uint8Array(bytes).buffer);
    if (firstRootOf({ layout, values }, nativeSha256) === parent.first) return values;
  }
  const values = await firstOfFork(spec, {
    ...parentsOn(reach),
    first: async ({ start, training }) => (start?.root ? base?.first(training.seed) : undefined),
  });
  if (values) await writeAtomically(file, new Uint8Array(values.slice().buffer));
  return values;
}
