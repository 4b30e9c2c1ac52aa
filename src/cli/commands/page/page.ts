/** `nostrain page`: serves the run page for one run, writes it to a folder for any web server, or publishes it. */

import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { utf8 } from '../../../base/bytes.ts';
import { ConfigError } from '../../../base/errors.ts';
import type { CertifiedSummary } from '../../../certified/rounds/events.ts';
import { parseRunName } from '../../../certified/wire/run-names.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import { openArchive } from '../../../dashboard/follow-run.ts';
import type { RoundPicture, RunPicture } from '../../../dashboard/run-picture.ts';
import { kindOf } from '../../../node/files/atomic-file.ts';
import { homeSigner, toNpub } from '../../../node/files/keys.ts';
import {
  findLocalRun,
  type LocalRun,
  readKeptSpec,
  withHistory,
} from '../../../node/files/local-runs.ts';
import { type PageFiles, readPage, readTab, servePage } from '../../../node/net/http-server.ts';
import type { Digest } from '../../../run/ids.ts';
import { runIdOf } from '../../../run/spec/run-spec.ts';
import { addressOfRun, splitOf } from '../../../social/announce.ts';
import type { Site } from '../../../social/sites.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import {
  type FlagValues,
  severalOr,
  text,
  toggle,
  whole,
  withDefault,
} from '../../../terminal/flag-table.ts';
import { untilInterrupted } from '../../../terminal/interrupt.ts';
import { refuseUnused } from '../../../terminal/options.ts';
import { asJson, writeNote, writeOut, writeOutput } from '../../../terminal/output.ts';
import { eventsIn, readHistory } from '../../shared/archive-source.ts';
import { readBytes } from '../../shared/files.ts';
import { pageFolder } from '../../shared/page-folder.ts';
import { tabLink } from '../../shared/tab-link.ts';
import { withRelays } from '../../shared/with-relays.ts';
import { assertSite, publishSite } from './publish.ts';

const pageFlags = {
  relay: severalOr('those of the run', '<url>', 'relay to read the run from, repeatable'),
  events: text('<file>', 'archive (file or folder) to show instead of asking relays'),
  drand: severalOr('none', '<url>', 'drand endpoint, for runs with a drand beacon'),
  tab: toggle('also serve the tab that trains in the run (needs onnxruntime-web)'),
  out: text('<folder>', 'write the page to this folder for any web server, and do not serve it'),
  publish: severalOr(
    'none',
    '<url>',
    'Blossom server to publish the page on as a Nostr static site (NIP-5A), repeatable; ' +
      'its manifest goes to --relay',
  ),
  site: withDefault(text('<name>', 'name of that site under your key'), 'nostrain'),
  source: text('<url>', 'source code of the page, for the manifest of that site'),
  keyFile: text('<file>', 'secret key to sign the site with (default: in your data folder)'),
  secKey: text('<key>', 'secret key as hex or nsec; other users of this machine can see it'),
  host: withDefault(
    text('<address>', 'address to listen on; 0.0.0.0 for all interfaces'),
    '127.0.0.1',
  ),
  port: withDefault(whole('<n>', 'port to listen on; 0 takes any free one', 0, 65535), 8088),
  json: toggle('print the address as JSON'),
};

type PageFlags = FlagValues<typeof pageFlags>;

export const page = defineCommand({
  name: 'page',
  help: 'show a run in a browser: losses, workers, votes, and a replay that verifies them',
  args: [['[run]', 'run: naddr1…, a link, its id, or its name on this machine']],
  flags: pageFlags,
  async run(flags, invocation) {
    const [run] = invocation.args;
    const { out } = flags;
    const isPublished = flags.publish.length > 0;
    refuseUnused(invocation.command, [
      { flags: ['host', 'port'], goesWith: 'a page that is served', holds: !out && !isPublished },
      { flags: ['out'], goesWith: 'a page that is not published', holds: !isPublished },
      {
        flags: ['site', 'source', 'keyFile', 'secKey'],
        goesWith: '--publish',
        holds: isPublished,
      },
      {
        flags: ['relay'],
        goesWith: 'relays, not --events',
        holds: flags.events === undefined || isPublished,
      },
    ]);
    if (isPublished) assertPublishable(flags);
    const content = await contentOf(run, flags);
    if (isPublished) await publish(run, content, flags, invocation.signal);
    else if (out !== undefined) await write(out, content, flags);
    else await serve(content, flags);
  },
});

interface Content {
  readonly files: PageFiles;
  /** The URL fragment, with its #. */
  readonly address: string;
  /** With --tab: the path and fragment that open the tab. */
  readonly tab: string | undefined;
}

async function contentOf(run: string | undefined, flags: PageFlags): Promise<Content> {
  const files = new Map(await readPage(pageFolder()));
  const query = new URLSearchParams();
  const name = run === undefined ? undefined : parseRunName(run);
  const isKept = run !== undefined && name === undefined;
  const kept = isKept ? await findLocalRun(run, undefined, { anyWorker: true }) : undefined;
  const spec = kept && (await addLocal(kept, files, query));
  if (name !== undefined) query.set('run', name.run);
  if (flags.events !== undefined) {
    files.set('events.jsonl', await readEvents(flags.events));
    query.set('events', 'events.jsonl');
  }
  const relays = flags.relay.length > 0 ? flags.relay : (kept?.relays ?? name?.relays ?? []);
  if (flags.events === undefined) for (const url of relays) query.append('relay', url);
  for (const url of flags.drand) query.append('drand', url);
  const address = query.size === 0 ? '' : `#${query}`;
  if (flags.tab !== true) return { files, address, tab: undefined };
  const naddr = spec
    ? encodeRunAddress({ run: runIdOf(spec), author: spec.author, relays })
    : name?.run;
  if (naddr?.startsWith('naddr1')) {
    for (const [path, bytes] of await readTab(new Map())) files.set(path, bytes);
    return { files, address, tab: tabLink(TAB_PAGE, naddr) };
  }
  throw new ConfigError('page/tab', 'a tab needs the address of a certified run', {
    hint: 'name the run by its naddr1…, or by its name on this machine',
  });
}

/** Name of the page of the tab among the files. */
const TAB_PAGE = 'tab.html';

/**
 * Adds the losses and texts of a local run; for a certified run also its id, so that the page finds the events. Returns
 * the spec of a certified run.
 */
async function addLocal(kept: LocalRun, files: Map<string, Uint8Array>, query: URLSearchParams) {
  const spec = await readKeptSpec(kept.worker);
  const id = spec && runIdOf(spec);
  files.set('local.json', utf8(JSON.stringify(localPicture(await withHistory(kept), id))));
  query.set('local', 'local.json');
  if (id !== undefined) query.set('run', id);
  return spec;
}

/** Reads an archive file, or the archive in a folder that `archive --folder` wrote. */
const readEvents = async (path: string): Promise<Uint8Array> =>
  readBytes(
    (await kindOf(path)) === 'folder' ? eventsIn(path) : path,
    'events/file',
    'give a file or a folder that `nostrain archive` wrote',
  );

async function serve({ files, address, tab }: Content, { host, port, json }: PageFlags) {
  const server = await servePage(files, { host, port, isolated: tab !== undefined });
  const url = `${server.url}${address}`;
  const interrupted = untilInterrupted();
  printLinks({ url, tab: tab && `${server.url}${tab}` }, json);
  writeNote('open it in a browser; press Ctrl-C to stop');
  await interrupted;
  await server.close();
}

/** Checks the flags before anything is read or sent. Throws `flag/relay` or `page/site`. */
function assertPublishable({ relay, site }: PageFlags): void {
  assertSite(site);
  if (relay.length > 0) return;
  throw new ConfigError('flag/relay', 'a site needs a relay for its manifest', {
    hint: 'name relays with --relay wss://…, preferably those of your relay list',
  });
}

async function publish(
  run: string | undefined,
  { files, address, tab }: Content,
  flags: PageFlags,
  signal: AbortSignal,
): Promise<void> {
  const { relay: relays, publish: servers, site, source, json } = flags;
  const signer = await homeSigner(flags, writeNote);
  const connection = connectionOf({ timeout: 10 });
  const hasRun = /[#&](?:run|events)=/.test(address);
  const split = hasRun ? await splitIn(run, flags, signal) : undefined;
  const means = { site, title: 'nostrain', servers, relays, source, split, signer };
  const published = await publishSite(files, { ...means, connection, signal });
  const { label, event, snapshot, files: sent, relays: accepting } = published;
  writeOut(
    json
      ? asJson({ site: label, event, snapshot, address, files: sent, relays: accepting })
      : `${label}\n`,
  );
  for (const path of [address, tab ?? []].flat()) {
    writeNote(`hosts of Nostr sites serve it at https://${label}.HOST/${path}`);
  }
}

/** Returns how a zap of the page is split; undefined before the run is over, and without a Lightning address. */
async function splitIn(
  run: string | undefined,
  pageFlags: PageFlags,
  signal: AbortSignal,
): Promise<Site['split']> {
  const named = run === undefined ? {} : { run };
  const flags = { ...pageFlags, ...named, timeout: 10, rpc: [], rpcTimeout: 30 };
  const { archive, options, reach } = await readHistory(flags, signal);
  const opened = await openArchive(archive, { ...options, nowSeconds: 0 });
  const urls = flags.relay.length > 0 ? flags.relay : reach.relays;
  return withRelays(urls, reach, async ({ relays }) => {
    const { shares, leftOut } = await splitOf(opened.picture, relays, signal);
    for (const key of leftOut) writeNote(`left out, without a Lightning address: ${toNpub(key)}`);
    if (shares.length === 0) return undefined;
    return { run: addressOfRun(opened.spec.author, opened.run), shares };
  });
}

async function write(folder: string, { files, address, tab }: Content, { json }: PageFlags) {
  for (const [name, bytes] of files) {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    await writeOutput(path, bytes);
  }
  const url = `index.html${address}`;
  if (json) writeOut(asJson({ url, tab, folder, files: [...files.keys()] }));
  else printLinks({ url: join(folder, url), tab: tab && join(folder, tab) });
}

interface Links {
  readonly url: string;
  readonly tab: string | undefined;
}

function printLinks({ url, tab }: Links, isJson = false): void {
  writeOut(isJson ? asJson({ url, tab }) : `${[url, tab ?? []].flat().join('\n')}\n`);
}

/** Returns the view of a local run; `run` is the id of a certified run. */
function localPicture(kept: LocalRun, run: Digest | undefined): RunPicture {
  const { name, model = '', kind, rounds: planned, history, state, lossUnit = '' } = kept;
  const rounds = history.map(roundOf);
  const last = history.at(-1);
  return {
    run: run ?? kept.run ?? name,
    name,
    model,
    tier: kind,
    planned: planned ?? rounds.length,
    innerSteps: 0,
    seats: 0,
    hasText: last?.sample !== undefined,
    reports: true,
    rounds,
    lossUnit,
    workers: [],
    relays: [],
    refused: [],
    events: 0,
    isCaughtUp: state !== 'running',
  };
}

function roundOf(summary: CertifiedSummary): RoundPicture {
  const { index, accepted, trainingLoss, validationLoss, sample } = summary;
  const { certified, bitsPerByte, accuracy } = summary;
  return {
    round: index,
    result: certified?.result ?? 'final',
    time: 0,
    outcome: '',
    proposer: '',
    attempt: certified?.attempt ?? 0,
    view: certified?.view ?? 0,
    roster: accepted,
    committee: [],
    quorum: 0,
    signers: certified?.signers ?? [],
    sent: [],
    forks: [],
    accepted: accepted.map((worker) => ({ worker, late: false })),
    rejected: certified?.rejected ?? [],
    joined: certified?.joined ?? [],
    left: certified?.left ?? [],
    faults: (certified?.faults ?? []).map((worker) => ({ worker, kind: 'fault' })),
    modelRoot: summary.digest,
    ledgerRoot: '',
    ...(Number.isFinite(trainingLoss) && { trainingLoss }),
    ...(validationLoss !== undefined && { sharedLoss: validationLoss }),
    ...(bitsPerByte !== undefined && { bitsPerByte }),
    ...(accuracy !== undefined && { accuracy }),
    ...(sample !== undefined && { sample }),
  };
}
