/**
 * Input of `placement check`: placement documents (TOML, JSON), announcements of holders with attestations (JSON
 * lines), and what relays have of holders and of the members of a run.
 */

import type { Command } from 'commander';
import { parseJson } from '../../../base/canonical-json.ts';
import { ConfigError } from '../../../base/errors.ts';
import { standOf } from '../../../certified/history/catch-up.ts';
import { CHECKPOINT_CHUNK_BYTES } from '../../../certified/wire/checkpoints.ts';
import { parseEvent, type SignedEvent, verifyEvent } from '../../../network/event.ts';
import {
  attestationFilter,
  holderFilter,
  newestHolders,
  withAttestations,
} from '../../../network/wire/holders.ts';
import { readDocument } from '../../../node/files/documents.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { WorkerId } from '../../../run/ids.ts';
import {
  type Holder,
  type PlacementDocument,
  type PlacementPolicy,
  readPlacement,
} from '../../../run/placement-policy.ts';
import { fullName } from '../../../run/worker-names.ts';
import {
  connectionFlagNames,
  connectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import { type FlagValues, several, text } from '../../../terminal/flag-table.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { standPorts } from '../../shared/beacon.ts';
import { readText } from '../../shared/files.ts';
import { followFlagNames, followFlags, privateRelaysFlag } from '../../shared/member-flags.ts';
import { findRun, withRelaysOf } from '../../shared/with-relays.ts';

export interface PlacementInput {
  readonly policy: PlacementPolicy;
  readonly holders: readonly Holder[];
  /** Members of the run that announce no holder. */
  readonly absent: readonly WorkerId[];
}

const HINT = 'docs/placement.md has an example of a placement document';

/**
 * Reads the one policy and all holders from files and from the answer of `ask`. Of the holder events, the newest that
 * is valid at `now` (unix seconds) counts.
 */
export async function readPlacementFiles(
  files: readonly string[],
  ask: (filePolicy: PlacementPolicy | undefined) => Promise<PlacementQuery>,
  now: number,
): Promise<PlacementInput> {
  const isEvents = (file: string) => file.endsWith('.jsonl');
  const events: SignedEvent[] = [];
  for (const file of files.filter(isEvents)) events.push(...(await readEvents(file)));
  const documents: PlacementDocument[] = [];
  for (const file of files.filter((each) => !isEvents(each))) documents.push(await readOne(file));
  const policies = documents.flatMap(({ policy }) => policy ?? []);
  const refuse = (what: string) =>
    new ConfigError('placement/file', what, {
      hint:
        'give one file with [objects.<class>], and others only with holders, or --run of a ' +
        `run that has a placement; ${HINT}`,
    });
  if (policies.length > 1) throw refuse('two files have [objects.<class>]');
  const { events: heard, members, policy } = await ask(policies[0]);
  if (policy === undefined) throw refuse('no file has [objects.<class>]');
  events.push(...heard);
  const written = documents.flatMap(({ holders }) => holders);
  const enclosed = written.flatMap(({ key, attestations }) =>
    attestations.map((text) => enclosedEvent(key, text)),
  );
  const announced = [...newestHolders(events, now).values()];
  const known = new Set(written.map(({ key }) => key));
  if (known.size < written.length) {
    throw new ConfigError('placement/file', 'two files list the same holder', {
      hint: 'remove the holder from one of them',
    });
  }
  const isAble = ({ key }: { readonly key: WorkerId }) => members?.includes(key) !== false;
  const all = [...written, ...announced.filter(({ key }) => !known.has(key))].filter(isAble);
  const attested = withAttestations(all, [...events, ...enclosed], policy.attestors, now);
  // only a run fixes the object size, so only then is the capacity known
  const capacities = new Map(
    policies.length > 0
      ? []
      : announced.map(({ key, freeBytes }) => [
          key,
          Math.floor(freeBytes / CHECKPOINT_CHUNK_BYTES),
        ]),
  );
  const holders = attested.map((holder) => ({ ...holder, capacity: capacities.get(holder.key) }));
  const absent = members?.filter((member) => all.every(({ key }) => key !== member)) ?? [];
  return { policy, holders, absent };
}

async function readOne(file: string): Promise<PlacementDocument> {
  const read = readPlacement(await readDocument(file, 'the placement document', HINT));
  if (read.ok) return read.value;
  const { code, message } = read.issue;
  throw new ConfigError(`placement/${code}`, `${file}: ${message}`, { hint: HINT });
}

async function readEvents(file: string): Promise<readonly SignedEvent[]> {
  const lines = (await readText(file)).split('\n');
  return lines.flatMap((line, i) =>
    line.trim() === '' ? [] : [verified(line, `${file}: line ${i + 1}`)],
  );
}

const enclosedEvent = (key: string, text: string): SignedEvent =>
  verified(text, `an attestation of ${fullName(key)}`);

function verified(text: string, where: string): SignedEvent {
  const refuse = (what: string) =>
    new ConfigError('placement/event', `${where} ${what}`, {
      hint: 'each must be a signed event of kind 37812 or 37813, as `nostrain relay` stores it',
    });
  const json = parseJson(text);
  if (!json.ok) throw refuse('is not JSON');
  const event = parseEvent(json.value);
  if (!event.ok) throw refuse(`is not an event: ${event.issue.message}`);
  const checked = verifyEvent(event.value, nativeCrypto);
  if (!checked.ok) throw refuse(`is refused: ${checked.issue.message}`);
  return checked.value;
}

export const askFlags = {
  relay: several('<url>', 'relay to ask for holders, repeatable'),
  run: text('<run>', 'only members of this certified run (file, naddr1… or name)'),
  allowPrivateRelays: privateRelaysFlag,
  ...connectionFlags,
  ...followFlags,
};

type AskFlags = FlagValues<typeof askFlags>;

export interface PlacementQuery {
  readonly events: readonly SignedEvent[];
  /** The roster of the run, if one is named: only members may be holders. */
  readonly members: readonly WorkerId[] | undefined;
  /** The placement policy: of a file, otherwise of the run. */
  readonly policy: PlacementPolicy | undefined;
}

/** Refuses flags about relays and runs if none is named. */
export function checkAskFlags(command: Command, { relay, run }: AskFlags): void {
  refuseUnused(command, [
    { flags: followFlagNames, goesWith: '--run', holds: run !== undefined },
    {
      flags: connectionFlagNames,
      goesWith: '--relay or --run',
      holds: run !== undefined || relay !== undefined,
    },
  ]);
}

/** Returns the announced holders, the attestations about them, and the members of the named run. */
export async function askRelays(
  flags: AskFlags,
  filePolicy: PlacementPolicy | undefined,
  signal: AbortSignal,
): Promise<PlacementQuery> {
  const { relay, run } = flags;
  if (run === undefined && relay === undefined)
    return { events: [], members: undefined, policy: filePolicy };
  const target =
    run === undefined
      ? { relays: relay ?? [], connection: connectionOf(flags), spec: undefined }
      : await findRun(run, flags, { signal });
  const policy = filePolicy ?? target.spec?.placement ?? undefined;
  const attestors = policy?.attestors ?? [];
  const filters = [holderFilter(), ...(attestors.length > 0 ? [attestationFilter(attestors)] : [])];
  const waitMs = flags.timeout * 1000;
  return withRelaysOf(target, { signal }, async (relaySession) => {
    const { events } = await relaySession.relays.query(filters, { waitMs, signal });
    const { spec } = target;
    const stand =
      spec && (await standOf(spec, { ...relaySession, ...(await standPorts(spec, flags)) }));
    return { events, members: stand?.ledger.members.map(({ key }) => key), policy };
  });
}
