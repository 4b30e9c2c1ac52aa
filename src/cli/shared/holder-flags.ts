/** Flags about holders of chunks: for a worker that holds chunks, and `--directory`, which finds holders. */
import { join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes } from '../../base/numbers.ts';
import type { CheckpointChunks } from '../../certified/wire/checkpoints.ts';
import type { SourceReport } from '../../network/chunks/source.ts';
import type { Signer } from '../../network/event.ts';
import { isRelayUrl } from '../../network/transport/relay-urls.ts';
import { createSearch, type DirectorySearch } from '../../node/checkpoint/directory.ts';
import { createRunChunks } from '../../node/checkpoint/run-chunks.ts';
import { type RunHolder, startRunHolder } from '../../node/checkpoint/run-holder.ts';
import { isPolicyName, MOST_WEIGHT } from '../../run/placement-policy.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import {
  byteCount,
  type FlagValues,
  parsed,
  repeated,
  several,
  text,
  toggle,
  whole,
  withDefault,
} from '../../terminal/flag-table.ts';
import type { FlagRule } from '../../terminal/options.ts';
import { writeNote } from '../../terminal/output.ts';
import { withRelays } from './with-relays.ts';

const MOST_HOLD = 2 ** 50;

/** Flags for what a holder announces; `withFlag` is the flag that enables them. */
export const offerFlags = (withFlag: string) => ({
  announce: text('<url>', 'public URL of this server; announces it as a holder'),
  region: withDefault(text('<name>', `with ${withFlag}: region of this server`), 'unknown'),
  trustTier: withDefault(text('<name>', `with ${withFlag}: trust tier of this server`), 'open'),
  weight: withDefault(
    whole('<n>', `with ${withFlag}: relative share of the placed chunks`, 0, MOST_WEIGHT),
    1,
  ),
});

export type OfferFlags = FlagValues<ReturnType<typeof offerFlags>>;

export const holdFlags = {
  hold: byteCount(
    '<bytes>',
    'keep checkpoint chunks for newcomers, up to this many bytes, such as 2g',
    1,
    MOST_HOLD,
  ),
  holdPort: withDefault(
    whole('<n>', 'with --hold: port to listen on; 0 for any free port', 0, 65_535),
    8790,
  ),
  holdHost: withDefault(
    text('<address>', 'with --hold: address to listen on; 0.0.0.0 for all interfaces'),
    '127.0.0.1',
  ),
  holdRate: whole('<bytes>', 'with --hold: maximum bytes per second, all clients together', 1024),
  holder: several('<url>', 'holder server to ask for holders of the checkpoint, repeatable'),
  ...offerFlags('--hold'),
};

export type HoldFlags = FlagValues<typeof holdFlags>;

const ofPlacement = ['hold', 'holder'];
const ofHolding = Object.keys(holdFlags).filter((name) => !ofPlacement.includes(name));

/** Returns which of the flags a run can use. */
export const holdRules = ({ placement }: RunSpec, { hold }: HoldFlags): readonly FlagRule[] => [
  { flags: ofPlacement, goesWith: 'runs with a placement', holds: placement !== null },
  { flags: ofHolding, goesWith: '--hold', holds: hold !== undefined },
];

/** Throws `flag/announce` unless the URL and the names can be announced. */
export function assertOffer({ announce, region, trustTier }: OfferFlags): void {
  const isUrl = announce === undefined || (/^https?:\/\//.test(announce) && URL.canParse(announce));
  if (isUrl && [region, trustTier].every(isPolicyName)) return;
  throw new ConfigError('flag/announce', 'the holder cannot be announced', {
    hint: 'use --announce https://host:port, and names of a-z, 0-9, dot, dash and underscore',
  });
}

interface Machine {
  readonly dir: string;
  readonly signer: Signer;
  readonly flags: HoldFlags & { readonly allowPrivateRelays?: boolean };
}

/**
 * Opens the checkpoint mirrors of a run and the holder of this worker; `chunks` is undefined if the run has neither
 * mirrors nor a placement.
 */
export async function openChunks(
  spec: RunSpec,
  machine: Machine,
): Promise<{ readonly chunks: CheckpointChunks | undefined; close(): Promise<void> }> {
  const { places: servers, placement: policy } = spec;
  const { dir, signer, flags } = machine;
  const allowPrivate = flags.allowPrivateRelays === true;
  if (servers.length === 0 && policy === null)
    return { chunks: undefined, close: async () => undefined };
  const holder = await holderOf(spec, machine, allowPrivate);
  const chunks = createRunChunks({
    servers,
    policy,
    signer,
    folder: dir,
    allowPrivate,
    peers: flags.holder,
    holder,
    onNotice: writeNote,
    onFetched: reportSources,
  });
  return { chunks, close: async () => holder?.close() };
}

function reportSources(sources: readonly SourceReport[]): void {
  const used = sources.filter(({ chunks }) => chunks > 0);
  const words = used.map(({ name, bytes }) => `${formatBytes(bytes)} from ${name}`);
  writeNote(`downloaded the checkpoint: ${words.join(', ') || 'all chunks were already here'}`);
}

/** Starts the holder of a worker; undefined without `--hold`. */
async function holderOf(
  { placement, checkpoint }: RunSpec,
  { dir, signer, flags }: Machine,
  allowPrivate: boolean,
): Promise<RunHolder | undefined> {
  const { hold, holdPort, holdHost, holdRate, announce, region, trustTier: tier, weight } = flags;
  if (hold === undefined || placement === null) return undefined;
  assertOffer(flags);
  if (announce === undefined && !allowPrivate) {
    throw new ConfigError('flag/announce', '--hold needs a public address', {
      hint:
        'use --announce https://host:port; with --allow-private-relays, the local address is ' +
        'announced',
    });
  }
  const holder = await startRunHolder({
    policy: placement,
    signer,
    folder: join(dir, 'held'),
    mostBytes: hold,
    keep: checkpoint.keep,
    port: holdPort,
    host: holdHost,
    rate: holdRate,
    url: announce,
    offer: { region, tier, weight },
    allowPrivate,
    onNotice: writeNote,
  });
  writeNote(`holding checkpoint chunks and serving them at ${holder.url}`);
  return holder;
}

/** Flags of the holder directory: `--directory`, `--allow-private`, and how to reach relays. */
export const directoryFlags = {
  ...connectionFlags,
  directory: withDefault(
    repeated(
      parsed(
        '<url>',
        'relay (wss://…) or holder server (https://…) of the directory, repeatable',
        checked,
      ),
    ),
    [],
    'none',
  ),
  allowPrivate: toggle('also ask holders at private addresses that others name'),
};

export type DirectoryFlags = FlagValues<typeof directoryFlags>;

function checked(url: string): string {
  if (isRelayUrl(url) || (/^https?:\/\//i.test(url) && URL.canParse(url))) {
    return url.replace(/\/+$/, '');
  }
  throw new InvalidArgumentError('use wss://… for a relay or https://… for a holder server');
}

/** Runs the work with a search over what `--directory` names. */
export function withDirectory<T>(
  flags: DirectoryFlags,
  { signer, signal }: { readonly signer?: Signer; readonly signal: AbortSignal },
  work: (search: DirectorySearch) => Promise<T>,
): Promise<T> {
  const allowPrivate = flags.allowPrivate === true;
  const urls = flags.directory.filter(isRelayUrl);
  const peers = flags.directory.filter((url) => !isRelayUrl(url));
  const bounds = { peers, allowPrivate, waitMs: 1000 * flags.timeout, signal };
  if (urls.length === 0) return work(createSearch(undefined, bounds));
  const reach = { connection: connectionOf(flags), signer, signal };
  return withRelays(urls, reach, ({ relays }) => work(createSearch(relays, bounds)));
}
