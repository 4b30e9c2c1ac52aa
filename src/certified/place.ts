/** Checks whether a worker may join a run with its key and settings, and assigns its part of the data. */
import { fromHex } from '../base/bytes.ts';
import { ConfigError } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { contradictions } from '../run/complete-spec.ts';
import type { Shard } from '../run/field.ts';
import type { WorkerId } from '../run/ids.ts';
import type { RunSpec } from '../run/run-spec.ts';
import { fields, type PartialSettings, type Settings } from '../run/settings.ts';

/** Throws naming every flag that asks for something else than the spec says. */
export function assertNoContradiction(spec: RunSpec, asked: PartialSettings): void {
  const found = contradictions(spec, asked);
  if (found.length === 0) return;
  const words = found.map(
    ({ name, asked, spec }) =>
      `${fields[name].flag.split(' ')[0]} is ${asked}, the run says ${spec}`,
  );
  throw new ConfigError('flag/contradiction', words.join('; '), {
    hint: 'leave these out: a run is the same for everybody',
    data: { flags: found.map(({ name }) => name) },
  });
}

/** Throws when the run has a list and the key is not on it. */
export function assertAdmitted({ admission, founders }: RunSpec, me: WorkerId): void {
  const isIn = admission.kind === 'open' || founders.includes(me) || admission.keys.includes(me);
  if (isIn) return;
  throw new ConfigError('run/not-invited', `key ${me} is not among those the run admits`, {
    hint: 'join with a key that was invited (--key-file FILE), or ask for a new run with yours',
  });
}

/** Which part of the data: the one asked for; else by place among the founders; else drawn by key. */
export const placeIn = (
  spec: RunSpec,
  me: WorkerId,
  asked: PartialSettings,
): Pick<Settings, 'shard'> => ({ shard: shardIn(spec, me, asked.shard) });

function shardIn({ data, founders }: RunSpec, me: WorkerId, asked: Shard | undefined): Shard {
  if (data.kind === 'own') return asked ?? { index: 1, count: 1 };
  const count = data.shards;
  if (asked && asked.count !== count) {
    const words = `--shard is ${asked.index}/${asked.count}, the run says ${count} parts`;
    throw new ConfigError('flag/contradiction', words, {
      hint: `give a part like 1/${count}, or leave it out`,
    });
  }
  if (asked) return asked;
  const place = founders.indexOf(me);
  return { index: 1 + ((place < 0 ? drawOf(me) : place) % count), count };
}

/** The first four bytes of the key's hash, as a number. */
const drawOf = (me: WorkerId): number => new DataView(sha256(fromHex(me)!).buffer).getUint32(0);
