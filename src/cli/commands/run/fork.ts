/** `nostrain run fork`: creates a run that starts from a certified state of another one. */
import { ConfigError } from '../../../base/errors.ts';
import { forkPointOf } from '../../../certified/records/fork.ts';
import { fetchSlice } from '../../../certified/wire/runs.ts';
import { parentsOn } from '../../../node/join/parent.ts';
import { canonicalSpec } from '../../../run/spec/run-spec.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { ALL_FIELDS, specFlags, whole } from '../../../terminal/flag-table.ts';
import { writeNote } from '../../../terminal/output.ts';
import { beaconSource } from '../../shared/beacon.ts';
import { endpointFlags } from '../../shared/endpoints.ts';
import { privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, withRelays } from '../../shared/with-relays.ts';
import { createFrom, dataFlags, writingFlags } from './create.ts';

export const forkRun = defineCommand({
  name: 'fork',
  help: 'create a run that goes on from a certified state of another one',
  more: ALL_FIELDS,
  args: [['<run>', 'file, naddr1…, link or name of that run']],
  flags: {
    ...dataFlags,
    ...specFlags(),
    at: whole('<n>', 'number of rounds of that run to start from (default: all its rounds)', 1),
    allowPrivateRelays: privateRelaysFlag,
    ...writingFlags,
    ...endpointFlags,
  },
  async run(flags, invocation) {
    const { signal } = invocation;
    const { allowPrivateRelays } = flags;
    const reach = { connection: connectionOf(flags), signal, onNotice: writeNote };
    const original = await findRun(invocation.args[0], flags, { signal });
    const { run, relays, connection } = original;
    const { author, evaluation, training, tiers } = original.spec;
    if (tiers > 0) {
      throw new ConfigError('fork/tiers', 'a run with tiers cannot be forked', {
        hint: 'fork a run without --tiers',
      });
    }
    const at = { run, author, relays, rounds: flags.at ?? training.rounds };
    const beacon = (spec: typeof original.spec) => beaconSource(spec, flags);
    const parents = parentsOn({ ...reach, connection, relays, allowPrivateRelays, beacon });
    const { outcome, root, first } = await forkPointOf(at, parents);
    const slice =
      evaluation === null
        ? undefined
        : await withRelays(relays, { ...reach, connection }, async (session) => {
            const got = await fetchSlice(evaluation, author, { ...session, timeoutMs: SLICE_MS });
            return got.ok ? got.value : undefined;
          });
    const { author: _, founders: __, name, ...copied } = JSON.parse(canonicalSpec(original.spec));
    // it follows from the training of the fork
    const { weightCap: ___, ...limits } = copied.limits;
    const document = {
      ...copied,
      limits,
      name: `${String(name).slice(0, LONGEST_NAME)} fork`,
      parent: { ...at, outcome, root, first },
    };
    const created = { ...flags, relay: flags.relay ?? relays };
    await createFrom({ document, slice }, created, invocation);
  },
});

/** Milliseconds to wait for the evaluation slice. */
const SLICE_MS = 30_000;
/** Maximum characters of a name before ` fork` is added. */
const LONGEST_NAME = 58;
