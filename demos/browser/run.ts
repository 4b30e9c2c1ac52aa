/**
 * `nostrain demo browser`: tabs and processes train one model in a certified run, and a tab replays it; with --base
 * they fine-tune a published model.
 */
import { dirname, join, resolve } from 'node:path';
import { ConfigError, type RunSpec, runIdOf } from 'nostrain';
import { createRelay } from 'nostrain/relay';
import { deferred, type Scope, unlessAborted } from '../../src/base/async.ts';
import type { FromWorker } from '../../src/browser/link.ts';
import { encodeRunAddress } from '../../src/certified/wire/runs.ts';
import { pageFolder } from '../../src/cli/shared/page-folder.ts';
import { readPage, readTab, servePage } from '../../src/node/net/http-server.ts';
import { findChromium, openPage } from '../../src/node/net/local-programs.ts';
import { downloadReporter, fetchModel } from '../../src/node/pretrained/hub.ts';
import { isHubReference } from '../../src/pretrained/hub-reference.ts';
import type { PartialSettings } from '../../src/run/settings.ts';
import { writeNote } from '../../src/terminal/output.ts';
import { certify, enlist, smallGpt } from '../shared/certified.ts';
import { demoText } from '../shared/data.ts';
import { EventLog } from '../shared/document.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import { joinLine, type OnEvent, parseLine, runSwarm } from '../shared/swarm.ts';
import { type BrowserCast, type BrowserDocument, browserDocumentOf } from './document.ts';

interface Tab {
  readonly name: string;
  /** Device in its link. */
  readonly device: 'wasm' | 'auto';
  /** Round in which it is reloaded during training. */
  readonly reloadIn?: number;
}

interface Play {
  readonly nodes: readonly string[];
  readonly tabs: readonly Tab[];
  readonly training: PartialSettings;
  readonly innerSteps: Extent;
  readonly rounds: Extent;
}

interface Extent {
  readonly usual: number;
  readonly quick: number;
}

/** A GPT small enough for tabs on a laptop CPU. */
const fromScratch: Play = {
  nodes: ['alice', 'bob', 'carol'],
  tabs: [
    { name: 'tab-wasm', device: 'wasm', reloadIn: 2 },
    { name: 'tab-gpu', device: 'auto' },
  ],
  training: smallGpt,
  innerSteps: { usual: 20, quick: 4 },
  rounds: { usual: 8, quick: 6 },
};

/** Adapters on a published model: steps of 256 tokens. */
const fineTuning: Play = {
  nodes: ['alice', 'bob'],
  tabs: [{ name: 'tab', device: 'wasm' }],
  training: { model: 'pretrained', context: 128, batchSize: 2 },
  innerSteps: { usual: 8, quick: 2 },
  rounds: { usual: 8, quick: 4 },
};

/** Runs the demo. Returns exit code 0 if all workers agree and the run replays in a tab. */
export async function runBrowserDemo(flags: DemoFlags): Promise<number> {
  const program = flags.headless === true ? neededChromium() : undefined;
  const play = flags.base === undefined ? fromScratch : fineTuning;
  const { nodes: names, tabs } = play;
  const cast: readonly BrowserCast[] = [
    ...names.map((name) => ({ name, kind: 'node' as const })),
    ...tabs.map(({ name }) => ({ name, kind: 'tab' as const })),
  ];
  const workers = cast.map(({ name }) => name);
  return await onStage(flags, { name: 'browser', workers }, async (stage) => {
    const { dir, signal, scope, onNotice } = stage;
    const log = new EventLog();
    const onEvent: OnEvent = (name, event) => {
      log.take(name, event);
      stage.report(name, event);
    };
    const hands = await Promise.all(names.map((name) => enlist(name, dir)));
    const relay = await createRelay();
    scope.defer(() => relay.close());
    const corpus = await demoText(stage);
    const base = await localBase(stage);
    const { spec, file } = await certify(hands, {
      ...specFor(flags, play, base),
      name: 'browser',
      dir,
      corpus: corpus.file,
      relays: [relay.url],
      onNotice,
      signal,
    });
    const watch = watchTabs(tabs, base !== undefined, onEvent);
    const texts = new Map([[corpus.sha256, corpus.file]]);
    const pages = await servePages(texts, filesOf(spec, base), watch, stage);
    for (const { name, url } of linksOf(spec, tabs, relay.url, pages)) {
      if (program === undefined) onNotice(`${name}: open ${url}`);
      // no one presses the button of a headless browser
      else await openTab(program, `${url}&start`, resolve(dir, name), scope);
    }
    // the processes begin once the tabs have joined
    const line = { workers: cast.length, relays: [relay.url], corpus: corpus.file, threads: 1 };
    const nodes = names.map((name, i) => ({
      name,
      args: joinLine(
        file,
        // the shared loss of a published model over all of the text takes minutes
        { ...line, folder: join(dir, name), evaluates: i === 0 && base === undefined },
        { device: 'cpu', ...(base !== undefined && { base, basePrecision: 'q4' }) },
      ),
    }));
    const exits = await runSwarm(nodes, onEvent, signal);
    signal.throwIfAborted();
    const proof = await rootsOfTabs(watch, signal);
    const document = browserDocumentOf(log, cast, {
      ...proof,
      texts: watch.texts,
      reloads: watch.reloads,
      wallSeconds: stage.wallSeconds(),
    });
    const failed = stage.end(document, exits);
    return printVerdict(document, stage) && !failed ? 0 : 1;
  });
}

function neededChromium(): string {
  const program = findChromium();
  if (program !== undefined) return program;
  throw new ConfigError('demo/browser', 'no Chromium was found on this machine', {
    hint:
      'install it (Debian: apt-get install chromium), ' +
      'or leave --headless out and open the links yourself',
  });
}

/** Returns the base on this machine, downloaded if it is on the hub; undefined without --base. */
async function localBase({ flags: { base }, onNotice, signal }: Stage) {
  if (base === undefined || !isHubReference(base)) return base && resolve(base);
  return await fetchModel(base, { onProgress: downloadReporter(base, onNotice), signal });
}

function filesOf({ start }: RunSpec, base = ''): ReadonlyMap<string, string> {
  const folder = base.endsWith('.gguf') ? dirname(base) : base;
  return new Map(start?.files.map(({ name, sha256 }) => [sha256, join(folder, name)]));
}

/** Returns the spec of the run; tabs may join after the start. */
const specFor = (
  { quick = false, seed, ...flags }: DemoFlags,
  { nodes, tabs, training, innerSteps, rounds }: Play,
  base: string | undefined,
) => ({
  rules: {
    // tabs make their keys when they open
    admission: { kind: 'open' },
    seatWishes: true,
    data: { shards: nodes.length + tabs.length },
    // a software GPU takes many times as long as the other workers, which wait for it
    timing: { graceMinMs: 20_000, graceMaxMs: 60_000, deadlineC: 4, viewMs: 10_000, recoveryMs: 0 },
  },
  training: {
    ...training,
    ...(base !== undefined && { base }),
    innerSteps: flags.innerSteps ?? innerSteps[quick ? 'quick' : 'usual'],
    rounds: flags.rounds ?? rounds[quick ? 'quick' : 'usual'],
    seed,
  },
});

/** Serves the page of tabs, the corpus and the base by their hashes, and the run page. Returns their address. */
async function servePages(
  corpora: ReadonlyMap<string, string>,
  bases: ReadonlyMap<string, string>,
  watch: TabWatch,
  { scope }: Stage,
): Promise<string> {
  const files = [...(await readTab(corpora, bases)), ...(await readPage(pageFolder()))];
  const pages = await servePage(new Map(files), {
    host: '127.0.0.1',
    port: 0,
    isolated: true,
    onMessage: (text) => watch.receive(text),
  });
  scope.defer(() => pages.close());
  return pages.url;
}

const linksOf = (spec: RunSpec, tabs: readonly Tab[], relay: string, pages: string) => {
  const address = encodeRunAddress({ run: runIdOf(spec), author: spec.author, relays: [relay] });
  return tabs.map(({ name, device }) => ({
    name,
    url: `${pages}tab.html#${address}&device=${device}&threads=1&slot=${name}&evaluate=no&tell`,
  }));
};

async function openTab(program: string, url: string, folder: string, scope: Scope): Promise<void> {
  const page = await openPage(program, url, { folder, softwareGpu: true });
  scope.defer(() => page.close());
}

/** Returns the final roots of the tabs, and the root that the run page computed; empty if it or a tab failed. */
async function rootsOfTabs(watch: TabWatch, signal: AbortSignal) {
  const ended = new Map<string, string>();
  for (const [name, end] of watch.ended) {
    const message = await unlessAborted(end, signal);
    if (message.type === 'failed') {
      writeNote(`${name} failed: ${message.message}`);
      return { ended, proved: '' };
    }
    ended.set(name, message.root);
  }
  const proof = await unlessAborted(watch.verified, signal);
  if (proof.type === 'failed') writeNote(`the run page failed: ${proof.message}`);
  return { ended, proved: proof.type === 'verified' && proof.ok ? proof.root : '' };
}

function printVerdict(document: BrowserDocument, { say }: Stage): boolean {
  const { agreed, verifiedInPage, rounds, texts, wallSeconds } = document;
  const root = rounds.at(-1)?.root.slice(0, 16);
  const seconds = wallSeconds.toFixed(0);
  say(
    agreed
      ? `tabs and processes have one root, ${root}…, after ${rounds.length} rounds, ${seconds} s`
      : 'tabs and processes do NOT agree',
  );
  say(
    verifiedInPage
      ? 'the run page replayed it and found that root'
      : 'the run page could not replay it',
  );
  if (texts?.tuned !== undefined) say(`with the adapters the tab writes: ${texts.tuned}`);
  if (texts?.base !== undefined) say(`without them it writes: ${texts.base}`);
  return agreed && verifiedInPage;
}

/** The slot name in messages of the run page. */
const PAGE = 'page';

type Ended = Extract<FromWorker, { readonly type: 'ended' | 'failed' }>;
type Verified = Extract<FromWorker, { readonly type: 'verified' | 'failed' }>;

interface TabWatch {
  /** Handles a message of a page, and returns a command for the page. */
  receive(text: string): string;
  /** Resolves with the result of each tab, by name. */
  readonly ended: ReadonlyMap<string, Promise<Ended>>;
  /** Resolves with the replay by the run page, which the last tab opens at its end. */
  readonly verified: Promise<Verified>;
  readonly reloads: number;
  /** What a tab wrote at its end, if it fine-tuned a published model. */
  readonly texts: BrowserDocument['texts'];
}

/** Follows the tabs; ignores messages of other pages and unreadable ones. Tabs that `write` do so at their end. */
function watchTabs(tabs: readonly Tab[], writes: boolean, onEvent: OnEvent): TabWatch {
  const ends = new Map(tabs.map(({ name }) => [name, deferred<Ended>()] as const));
  const proof = deferred<Verified>();
  const over = new Set<string>();
  let reloads = 0;
  const texts: { tuned?: string; base?: string } = {};

  const take = (tab: Tab, message: FromWorker): string => {
    if (message.type === 'event') {
      onEvent(tab.name, message.event);
      const { event } = message;
      const isTraining = event.type === 'progress' && event.round >= (tab.reloadIn ?? Infinity);
      if (!isTraining || reloads > 0) return '';
      reloads += 1;
      onEvent(tab.name, { type: 'notice', message: 'its tab is reloaded during training' });
      return 'reload';
    }
    if (message.type === 'written' && message.isDone) {
      texts[message.isTuned ? 'tuned' : 'base'] = message.text;
      return message.isTuned ? '' : 'verify';
    }
    if (message.type !== 'ended' && message.type !== 'failed') return '';
    ends.get(tab.name)?.settle(message);
    over.add(tab.name);
    if (message.type !== 'ended' || over.size < tabs.length) return '';
    return writes ? 'write' : 'verify';
  };

  const tellProof = (message: FromWorker): void => {
    if (message.type === 'verified' || message.type === 'failed') proof.settle(message);
  };

  return {
    receive: (text) => {
      const report = parseLine<SlotMessage>(text);
      if (report?.slot === PAGE) tellProof(report.message);
      const tab = tabs.find(({ name }) => name === report?.slot);
      return tab && report ? take(tab, report.message) : '';
    },
    ended: new Map([...ends].map(([name, { promise }]) => [name, promise])),
    verified: proof.promise,
    texts: writes ? texts : undefined,
    get reloads() {
      return reloads;
    },
  };
}

interface SlotMessage {
  readonly slot: string;
  readonly message: FromWorker;
}
