/** The delegation of a session key: read from the run's folder, or requested from its principal's bunker. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../base/async.ts';
import { parseJson } from '../../base/canonical-json.ts';
import { ConfigError } from '../../base/errors.ts';
import {
  draftDelegation,
  readDelegation,
  rebuildDelegation,
} from '../../certified/wire/messages.ts';
import {
  type EventDraft,
  type SignedEvent,
  type Signer,
  verifyEvent,
} from '../../network/event.ts';
import { askBunker, parseBunker } from '../../network/wire/bunker.ts';
import type { Digest } from '../../run/ids.ts';
import { type Delegation, delegationField } from '../../run/spec/feature-fields.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { fullName } from '../../run/worker-names.ts';
import { type RelayReach, withRelays } from '../net/relays.ts';

interface DelegationOptions extends RelayReach {
  readonly run: Digest;
  /** Signs with the session key. */
  readonly signer: Signer;
  readonly dir: string;
  readonly bunker: string | undefined;
}

/**
 * Returns the delegation in the run's folder, or a new one from the bunker; null if the key acts for itself. Throws a
 * ConfigError if the run has no sessions, or if the delegation is not from another key to this one.
 */
export async function delegationIn(
  { sessions, training }: RunSpec,
  { dir, run, signer, bunker, connection, signal, onNotice = () => undefined }: DelegationOptions,
): Promise<Delegation | null> {
  if (!sessions && bunker !== undefined) {
    throw new ConfigError('flag/bunker', '--bunker: in this run keys act for themselves alone', {
      hint: 'join without it, or ask for a run that is created with --set sessions=true',
    });
  }
  if (!sessions) return null;
  const of = { run, session: signer.publicKey };
  const file = join(dir, 'delegation.json');
  const kept = parseJson(await readFile(file, 'utf8').catch(() => ''));
  const known = kept.ok ? delegationField.read(kept.value) : undefined;
  const isValid = known && verifyEvent(rebuildDelegation(of, known)).ok;
  if (isValid) {
    onNotice(`acting for ${fullName(known.key)}, by the delegation in ${file}`);
    return known;
  }
  if (known && bunker === undefined) {
    throw new ConfigError(
      'flag/bunker',
      `the delegation in ${file} is not for the key of this worker`,
      {
        hint: 'join with the key that it is for (--key-file FILE), or delegate again with --bunker',
      },
    );
  }
  if (bunker === undefined) return null;
  const draft = draftDelegation(of, training.rounds - 1, Math.floor(systemClock.now() / 1000));
  const event = await signAtBunker(draft, bunker, { connection, signal, onNotice });
  const read = readDelegation(event, of);
  if (!read.ok) {
    const message = `the signer returned an invalid delegation: ${read.issue.message}`;
    throw new ConfigError('bunker/other', message, { hint: 'use another signer' });
  }
  if (read.value.key === signer.publicKey) {
    throw new ConfigError('flag/bunker', '--bunker: the signer has the key of this worker', {
      hint: 'join without --bunker, or give this worker another key: --key-file FILE',
    });
  }
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeFile(file, `${JSON.stringify(read.value)}\n`, { mode: 0o600 });
  onNotice(`acting for ${fullName(read.value.key)}; the delegation is stored in ${file}`);
  return read.value;
}

/** Returns the event as the remote signer at this address returns it. Throws a ConfigError for an invalid address. */
export async function signAtBunker(
  draft: EventDraft,
  bunker: string,
  reach: RelayReach,
): Promise<SignedEvent> {
  const address = parseBunker(bunker);
  if (!address.ok) {
    throw new ConfigError('flag/bunker', `--bunker: ${address.issue.message}`, {
      hint: 'copy the connection address that your signer shows',
    });
  }
  const { onNotice = () => undefined } = reach;
  return withRelays(address.value.relays, reach, ({ relays, signal }) => {
    onNotice('waiting for your signer: it may ask for your approval');
    const onAuth = (url: string) => onNotice(`your signer asks you to open ${url}`);
    return askBunker(draft, address.value, { relays, clock: systemClock, signal, onAuth });
  });
}
