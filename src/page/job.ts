/** The background thread of the page: relays, signatures and replay, so that the page stays responsive. */
import { systemClock } from '../base/async.ts';
import { ConfigError, NostrainError, safeLine, wordsOf } from '../base/errors.ts';
import { sha256 } from '../base/hash.ts';
import { type Archive, archiveRun, readArchive } from '../certified/records/archive.ts';
import { firstOfFork } from '../certified/records/fork.ts';
import { replayRun } from '../certified/records/replay-run.ts';
import { decodeRunAddress, listRuns } from '../certified/wire/runs.ts';
import { createDrandSource } from '../chain/drand-source.ts';
import { createGet } from '../chain/endpoints.ts';
import { followRun, type OpenRun, openArchive } from '../dashboard/follow-run.ts';
import { createRelaySet, type RelaySet } from '../network/transport/relay-set.ts';
import { hintProblem } from '../network/transport/relay-urls.ts';
import { openSocket } from '../network/transport/socket.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import { firstOfImported } from './imported-first.ts';
import type { FromJob, ListedRun, Source, ToJob } from './messages.ts';
import {
  checkpointPointer,
  draftNote,
  followSocial,
  postNote,
  runOfCheckpoint,
} from './social-job.ts';

interface Port {
  postMessage(message: FromJob): void;
  onmessage: ((event: { readonly data: ToJob }) => void) | null;
}

const port = globalThis as unknown as Port;
const say = (message: FromJob): void => port.postMessage(message);

/** Milliseconds to wait for the list of runs. */
const LIST_MS = 8000;
/** Maximum bytes of an event; longer ones are ignored. */
const LONGEST_EVENT_BYTES = 512 << 10;

let stop = new AbortController();
let relays: RelaySet | undefined;
let opened: OpenRun | undefined;

port.onmessage = ({ data }) => {
  void answer(data).catch(fail);
};

function fail(error: unknown): void {
  if (stop.signal.aborted) return;
  const message = safeLine(wordsOf(error));
  const hint = error instanceof NostrainError ? (error.hint ?? '') : '';
  say({ type: 'failed', message, hint: safeLine(hint) });
}

async function answer(message: ToJob): Promise<void> {
  switch (message.type) {
    case 'open':
      await close();
      return openSource(message.source);
    case 'open-archive':
      await close();
      return openFiles(message.files, message.run);
    case 'explain': {
      const { worker, round } = message;
      const why = opened?.explain(worker, round)?.why ?? ['This round is not loaded.'];
      return say({ type: 'explained', worker, round, why });
    }
    case 'verify':
      return verify();
    case 'draft':
      if (opened === undefined || relays === undefined) return;
      return say({
        type: 'drafted',
        draft: await draftNote(opened, relays, message.page, stop.signal),
      });
    case 'post':
      if (opened === undefined || relays === undefined) return;
      return say({
        type: 'posted',
        relays: await postNote(message.event, opened, relays, stop.signal),
      });
  }
}

async function close(): Promise<void> {
  stop.abort(new Error('closed'));
  stop = new AbortController();
  opened?.close();
  opened = undefined;
  await relays?.close();
  relays = undefined;
}

/** Returns the relays that may be used: those of a link come from a stranger, so private ones are refused. */
function dialable(urls: readonly string[], { mayDialPrivate }: Source): readonly string[] {
  if (mayDialPrivate) return urls;
  const usable = urls.filter((url) => hintProblem(url) === undefined);
  if (usable.length > 0 || urls.length === 0) return usable;
  throw new ConfigError('relay/private-hint', 'the link names only relays in a private network', {
    hint: 'if you trust the link, type their addresses in yourself',
  });
}

async function openSource(source: Source): Promise<void> {
  const pointer = checkpointPointer(source.run);
  const address = /naddr1/.test(source.run) ? decodeRunAddress(source.run.trim()) : undefined;
  if (address?.ok === false) {
    throw new ConfigError('run/address', `the address is ${address.issue.message}`, {
      hint: 'copy the complete naddr1… of the run',
    });
  }
  const hints = pointer?.relays ?? (address?.ok ? address.value.relays : []);
  const urls = dialable(source.relays.length > 0 ? source.relays : hints, source);
  if (urls.length === 0) {
    throw new ConfigError('flag/relay', 'no relay is named', { hint: 'name one, as wss://…' });
  }
  const set = createRelaySet(urls, {
    openSocket,
    clock: systemClock,
    longestEventBytes: LONGEST_EVENT_BYTES,
  });
  relays = set;
  const { signal } = stop;
  await set.ready(signal);
  const given = address?.ok ? address.value.run : source.run.trim();
  const run = pointer ? await runOfCheckpoint(pointer.id, set, signal) : given;
  if (run === '') return list(set, signal);
  if (!/^[0-9a-f]{64}$/.test(run)) {
    throw new ConfigError('flag/run', 'this is no run', {
      hint: 'give naddr1… or the 64 hex digits of a run id',
    });
  }
  let tellSocial: (() => void) | undefined;
  opened = await followRun(run, {
    relays: set,
    clock: systemClock,
    signal,
    beacon: (spec) => beaconOf(spec, source),
    onProgress: (have) => say({ type: 'reading', have }),
    onPicture: (picture) => {
      say({ type: 'picture', picture });
      tellSocial?.();
    },
    onFailed: fail,
  });
  tellSocial = followSocial(opened, set, signal, say);
  showLineage(opened, set, signal).catch(fail);
}

/** drand alone: a page has no way to a chain that it could check. */
function beaconOf({ beacon }: RunSpec, { drand }: Source) {
  if (beacon.kind !== 'drand' || drand.length === 0) return undefined;
  const get = createGet(fetch);
  return createDrandSource(beacon, { urls: drand, get, clock: systemClock, timeoutMs: 15_000 });
}

const list = async (set: RelaySet, signal: AbortSignal): Promise<void> =>
  say({ type: 'runs', runs: await listed(set, signal), relays: set.relays });

/** Sends the parent of the opened run, and the runs on these relays that continue it. */
async function showLineage({ run, spec }: OpenRun, set: RelaySet, signal: AbortSignal) {
  const { parent } = spec;
  say({ type: 'lineage', parent: parent ?? undefined, forks: [] });
  const forks = (await listed(set, signal)).filter((each) => each.parent?.run === run);
  say({ type: 'lineage', parent: parent ?? undefined, forks });
}

async function listed(set: RelaySet, signal: AbortSignal): Promise<readonly ListedRun[]> {
  const relaySession = { relays: set, clock: systemClock, sha256, signal, timeoutMs: LIST_MS };
  const runs = await listRuns(relaySession);
  return runs.map(({ run, spec, createdAt }) => ({
    run,
    name: safeLine(spec.name),
    model: spec.training.model,
    rounds: spec.training.rounds,
    createdAt,
    parent: spec.parent ?? undefined,
  }));
}

async function openFiles(files: readonly Blob[], run: string): Promise<void> {
  const read = await readArchive(linesOf(files), {
    onProgress: (have) => say({ type: 'reading', have }),
  });
  opened = await openArchive(read, {
    nowSeconds: Math.floor(systemClock.now() / 1000),
    run: /^[0-9a-f]{64}$/.test(run) ? run : undefined,
  });
  say({ type: 'picture', picture: opened.picture });
}

/** Yields the lines of files, so that a large archive is never one string. */
async function* linesOf(files: readonly Blob[]): AsyncIterable<string> {
  for (const file of files) {
    const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? '')).split('\n');
      rest = done ? '' : lines.pop()!;
      yield* lines;
      if (done) break;
    }
  }
}

/** Reads the events of the parent of a fork from the relays of this page. */
async function openParent({ run }: { readonly run: string }): Promise<Archive> {
  if (relays === undefined) {
    throw new ConfigError('fork/parent', 'this archive has a fork without its parent', {
      hint: 'open the run from relays that have both',
    });
  }
  return archiveRun(run, { relays, sha256, signal: stop.signal });
}

async function verify(): Promise<void> {
  if (opened === undefined) return;
  const { run, spec } = opened;
  const startedMs = systemClock.now();
  const archive = await opened.archive((have) => say({ type: 'gathering', have }));
  const of = spec.training.rounds;
  const { signal } = stop;
  const session = relays && { relays, clock: systemClock, sha256, signal };
  const first = async (each: RunSpec) => session && (await firstOfImported(each, session));
  const report = await replayRun(archive, {
    run,
    spec,
    signal,
    first: async (each) =>
      (await firstOfFork(each, { sha256, signal, open: openParent, first })) ?? first(each),
    onRound: (round) => say({ type: 'checked', round, of }),
  });
  say({ type: 'verified', report, seconds: (systemClock.now() - startedMs) / 1000 });
}
