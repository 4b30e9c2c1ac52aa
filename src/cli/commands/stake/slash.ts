/** `nostrain stake slash`: checks fault proofs (kind 7817) and submits them to a registry, which slashes the keys. */

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { npubEncode } from 'nostr-tools/nip19';
import { ChainError, ConfigError } from '../../../base/errors.ts';
import { collectChunks, collectEvents } from '../../../certified/history/from-relays.ts';
import { parseKeptRound } from '../../../certified/rounds/keep-round.ts';
import { faultsFilter, membersFilter } from '../../../certified/wire/certified-events.ts';
import { openFault, toFaultProof } from '../../../certified/wire/faults.ts';
import { callData } from '../../../chain/evm/encoding.ts';
import {
  type Sender,
  sendTransaction,
  slashCall,
  type TransactionReceipt,
} from '../../../chain/registry/registry-calls.ts';
import { apartIn, type BodyOf, MOST_BODY_BYTES } from '../../../network/attachments/bodies.ts';
import { heapChunks } from '../../../network/chunks/payload.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import type { WorkerId } from '../../../run/ids.ts';
import { anyFeatures } from '../../../run/spec/features.ts';
import { defineCommand } from '../../../terminal/command.ts';
import {
  connectionFlagNames,
  connectionFlags,
  connectionOf,
} from '../../../terminal/connection.ts';
import { type FlagValues, severalOr, text } from '../../../terminal/flag-table.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { exitCodes, writeNote, writeOut } from '../../../terminal/output.ts';
import { readArchiveFile } from '../../shared/archive-source.ts';
import { readText } from '../../shared/files.ts';
import { privateRelaysFlag } from '../../shared/member-flags.ts';
import { locateRun, withRelays } from '../../shared/with-relays.ts';
import { typedKey } from '../../shared/worker-flag.ts';
import { contractOf, registryFlags, withAccount } from './registry.ts';

const slashFlags = {
  worker: text('<npub>', 'slash only this key'),
  events: text('<file>', 'file with proofs, written by `nostrain archive`'),
  dir: text('<dir>', 'worker folder with proofs'),
  run: text('<run>', 'run whose relays have proofs: its id, naddr1…, or its name on this machine'),
  relay: severalOr('those of --run', '<url>', 'relay to ask, repeatable'),
  allowPrivateRelays: privateRelaysFlag,
  ...connectionFlags,
  ...registryFlags,
};

type SlashFlags = FlagValues<typeof slashFlags>;

export const slash = defineCommand({
  name: 'slash',
  help:
    'prove to a registry deployed with --slash-permille that keys contradicted themselves: ' +
    'their stake is slashed',
  flags: slashFlags,
  async run(flags, { signal, command }) {
    refuseUnused(command, [
      {
        flags: [...connectionFlagNames, 'relay', 'allowPrivateRelays'],
        goesWith: '--run, whose relays are asked',
        holds: flags.run !== undefined,
      },
    ]);
    const only = flags.worker === undefined ? undefined : typedKey(flags.worker, 'stake/key');
    const contract = contractOf(flags);
    const pairs = pairsIn(await eventsOf(flags, signal));
    const proved = [...pairs].filter(([key]) => only === undefined || key === only);
    if (proved.length === 0) throw nothingProved(flags);
    await withAccount(flags, signal, async (sender, from) => {
      for (const [key, pair] of proved) {
        const done = await shown(sender, slashCall({ contract }, from, pair));
        if (typeof done === 'string') {
          writeNote(`${npubEncode(key)}: ${done}`);
          process.exitCode = exitCodes.failed.code;
        } else {
          const { block, gas } = done;
          writeOut(`${npubEncode(key)} lost its stake in block ${block}, for ${gas} gas\n`);
        }
      }
    });
  },
});

/** Errors of the contract, and what they mean. */
const REFUSALS = [
  ['IsSlashed()', 'it was slashed before'],
  ['NothingAtRisk()', 'it has no stake in this registry'],
  ['NoFault()', 'the registry finds no contradiction in these two events'],
] as const;
const REFUSED = 'the registry refuses these two events: was it deployed with --slash-permille?';

/** Submits two events to the registry. Returns the receipt, or the reason why the registry refuses them. */
async function shown(
  sender: Sender,
  call: ReturnType<typeof slashCall>,
): Promise<TransactionReceipt | string> {
  if (call === undefined) return 'the registry cannot check these two events';
  try {
    // a call returns the reason of a refusal and costs no gas
    await sender.endpoint.call('eth_call', [call, 'latest'], sender.signal);
    return await sendTransaction(sender, call);
  } catch (error) {
    if (!(error instanceof ChainError) || !/refused|reverted/.test(error.code)) throw error;
    const refusal = REFUSALS.find(([name]) => error.message.includes(callData(name).slice(2, 10)));
    return refusal?.[1] ?? `${REFUSED} (${error.message})`;
  }
}

const nothingProved = ({ events, dir, run }: SlashFlags): ConfigError =>
  new ConfigError('stake/no-proof', 'no proof against a key was found', {
    hint:
      (events ?? dir ?? run)
        ? 'ask other members or relays of the run, or leave out --worker'
        : 'use --events FILE, --dir DIR, or --run RUN',
  });

/** Returns verified events that may be proofs, and the chunks of their bodies. */
async function eventsOf(flags: SlashFlags, signal: AbortSignal): Promise<readonly SignedEvent[]> {
  const { events: file, dir, run } = flags;
  const stored = dir === undefined ? [] : await readStoredEvents(dir);
  const archived = file === undefined ? [] : (await readArchiveFile(file)).events;
  return [
    ...stored,
    ...archived,
    ...(run === undefined ? [] : await fetchProofs(run, flags, signal)),
  ];
}

/** Returns the stored events of past rounds. Bodies in chunks are not stored, but proofs hardly ever have one. */
async function readStoredEvents(dir: string): Promise<readonly SignedEvent[]> {
  const folder = join(dir, 'past');
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new ConfigError('run/folder', `${dir} has no events of past rounds`, {
      hint: 'give the folder of a worker in a certified run, as `nostrain runs` shows it',
      cause,
    });
  });
  const rounds = await Promise.all(names.map((name) => readText(join(folder, name))));
  return rounds.flatMap((text) => parseKeptRound(text)?.events ?? []);
}

/** Fetches the proofs of the run from relays. */
async function fetchProofs(
  name: string,
  flags: SlashFlags,
  signal: AbortSignal,
): Promise<readonly SignedEvent[]> {
  const { relay, allowPrivateRelays } = flags;
  const relays = relay.length > 0 ? relay : undefined;
  const location = await locateRun(name, { relays, allowPrivateRelays });
  const connection = { ...connectionOf(flags), ...(location.publicOnly && { publicOnly: true }) };
  const reach = { connection, signal };
  return withRelays(location.relays ?? relay, reach, async (relaySession) => {
    const proofs: SignedEvent[] = [];
    const take = (event: SignedEvent) => void proofs.push(event);
    await collectEvents(
      [membersFilter(location.run), faultsFilter(location.run)],
      relaySession,
      take,
    );
    const bodies = proofs.flatMap((event) => apartIn(event) ?? []);
    const wanted = bodies.filter(({ bytes }) => bytes <= MOST_BODY_BYTES);
    await collectChunks(wanted, relaySession, take);
    return proofs;
  });
}

type Pair = readonly [SignedEvent, SignedEvent];

/** Returns one proof per key: its two events. */
function pairsIn(events: readonly SignedEvent[]): ReadonlyMap<WorkerId, Pair> {
  const bodyOf: BodyOf = heapChunks(events, MOST_BODY_BYTES);
  const pairs = new Map<WorkerId, Pair>();
  for (const event of events) {
    const proof = toFaultProof(event, nativeCrypto, bodyOf, anyFeatures);
    if (!proof?.ok || proof.value.kind === 'failed-check') continue;
    const { culprit } = proof.value;
    const opened = openFault(event, nativeCrypto, bodyOf);
    const [a, b] = opened?.ok ? opened.value.events : [];
    if (a && b && !pairs.has(culprit)) pairs.set(culprit, [a, b]);
  }
  return pairs;
}
