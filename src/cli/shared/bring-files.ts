/** What training needs and this machine lacks, fetched in chunks before it begins: by the spec of a run, or by the digest that a person names. */
import { join } from 'node:path';
import type { Command } from 'commander';
import { isHex32 } from '../../base/bytes.ts';
import { ConfigError } from '../../base/errors.ts';
import { formatBytes, formatSeconds } from '../../base/numbers.ts';
import type { FetchEvent } from '../../network/chunks/fetch.ts';
import { type BringOptions, bringFile, type WantedFile } from '../../node/checkpoint/bring-file.ts';
import type { NamedPlace } from '../../node/checkpoint/places.ts';
import { dataHome } from '../../node/files/data-home.ts';
import type { RunSpec } from '../../run/spec/run-spec.ts';
import { hashBase } from '../../run/spec/start.ts';
import { type ConnectionFlags, connectionOf } from '../../terminal/connection.ts';
import { repeatable, whole } from '../../terminal/flags.ts';
import { writeNote } from '../../terminal/output.ts';
import type { WorkerFlags } from '../../terminal/worker-flags.ts';
import { slowly } from './archive-source.ts';

/** What a fetch asks of the flags. */
type FetchFlags = ConnectionFlags &
  Pick<BringFlags, 'filesFrom' | 'mostDownload' | 'allowPrivateRelays'>;

export interface BringFlags extends WorkerFlags {
  readonly filesFrom?: readonly string[];
  readonly mostDownload: number;
  readonly allowPrivateRelays?: boolean;
}

/** 8 GiB: more is fetched when a person says so. */
const MOST_BYTES = 2 ** 33;

/** Adds `--files-from` and `--most-download`. */
export const addBringFlags = (command: Command): Command =>
  command
    .addOption(
      repeatable(
        '--files-from <place>',
        'where a text or base that is named by its hash is in chunks: https://…, wss://… or a folder; repeatable',
      ),
    )
    .addOption(
      whole('--most-download <bytes>', 'longest file to fetch so', 1).default(
        MOST_BYTES,
        formatBytes(MOST_BYTES),
      ),
    );

/** What a worker trains on and starts from, as it names them or as they are fetched: undefined where nobody says. */
export interface TrainingFiles {
  readonly corpus?: string | undefined;
  readonly base?: string | undefined;
}

interface Reach {
  /** The relays of the run, and whether a stranger named them. */
  readonly relays: readonly string[];
  readonly publicOnly?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** Fetches what the worker names by the digest of a manifest, and of a run whose spec has `files` what the worker does not name. */
export async function bringFiles(
  run: Pick<RunSpec, 'files' | 'data' | 'start'> | undefined,
  own: TrainingFiles,
  flags: BringFlags,
  reach: Reach,
): Promise<TrainingFiles> {
  const bring = (wanted: WantedFile, folder: string, isByHash: boolean) =>
    bringFile(wanted, bringing(flags, reach, run, { folder, isByHash }));
  const named = (text: string | undefined, folder: string, name: string) =>
    text !== undefined && isHex32(text) ? bring({ manifest: text, name }, folder, true) : text;
  const files = run?.files?.each ?? [];
  const text = run?.data.kind === 'corpus' ? run.data.sha256 : undefined;
  const ofCorpus = files.find(({ sha256 }) => sha256 === text);
  const corpus =
    own.corpus === undefined && ofCorpus
      ? await bring(ofCorpus, 'corpora', true)
      : await named(own.corpus, 'corpora', 'text.txt');
  const ofBase = files.filter((file) => file !== ofCorpus);
  if (own.base !== undefined || !run?.start || ofBase.length === 0) {
    return { corpus, base: await named(own.base, 'models', 'model.gguf') };
  }
  const folder = join('models', `chunks-${hashBase(run.start).slice(0, 16)}`);
  let base = join(dataHome(), folder);
  for (const file of ofBase) {
    const path = await bring(file, folder, false);
    if (file.name.endsWith('.gguf')) base = path;
  }
  return { corpus, base };
}

function bringing(
  flags: FetchFlags,
  { relays, publicOnly, signal }: Reach,
  run: Pick<RunSpec, 'files'> | undefined,
  { folder, isByHash }: Pick<BringOptions, 'folder' | 'isByHash'>,
): BringOptions {
  const { filesFrom = [] } = flags;
  const places: readonly NamedPlace[] = [
    ...filesFrom.map((text) => ({ text, isTrusted: true })),
    ...(run?.files?.at ?? []).map((text) => ({ text, isTrusted: false })),
    ...relays.map((text) => ({ text, isTrusted: publicOnly !== true })),
  ];
  if (places.length === 0) {
    throw new ConfigError(
      'flag/files-from',
      'nobody says where a file is that is named by its hash',
      {
        hint: 'name a place that has its chunks: --files-from (replay: --from) https://…, wss://… or a folder',
      },
    );
  }
  return {
    places,
    folder: join(dataHome(), folder),
    isByHash,
    signal,
    mostBytes: flags.mostDownload,
    connection: connectionOf(flags),
    allowPrivate: flags.allowPrivateRelays === true,
    home: dataHome(),
    onNotice: writeNote,
    report: reportFetch(slowly()),
  };
}

/** The file of a run's events, by the digest of its manifest, from places that a person named. */
export const bringEvents = (
  manifest: string,
  from: readonly string[],
  flags: ConnectionFlags,
  signal: AbortSignal,
): Promise<string> => {
  const asked = { ...flags, filesFrom: from, mostDownload: MOST_BYTES };
  const where = { folder: 'archives', isByHash: true };
  const options = bringing(asked, { relays: [], signal }, undefined, where);
  return bringFile({ manifest, name: 'run.jsonl' }, options);
};

/** Says on stderr how far a fetch is by `report`, and at once of which places nothing more is asked. */
export const reportFetch =
  (report: (words: string) => void = writeNote) =>
  (event: FetchEvent): void => {
    if ('place' in event) {
      const what = event.type === 'demoted' ? 'is not asked any more' : 'is away';
      writeNote(`${event.place} ${what}: ${event.message}`);
      return;
    }
    const { bytes, of, perSecond } = event;
    const left = perSecond > 0 ? `, ${formatSeconds((of - bytes) / perSecond)} left` : '';
    report(`${formatBytes(bytes)} of ${formatBytes(of)}, ${formatBytes(perSecond)}/s${left}`);
  };
