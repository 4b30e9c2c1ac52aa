/**
 * `nostrain demo browser`: two tabs and three worker processes train one model in a certified run. One tab computes on WebAssembly, the
 * other one on WebGPU where the browser has it; one of them is reloaded while it trains; at the end the page of the run, in the browser of a tab, replays all of it.
 */
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { ConfigError } from '../../src/base/errors.ts';
import { type Scope, withScope } from '../../src/base/scope.ts';
import { makeSpec } from '../../src/certified/make-spec.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { encodeRunAddress } from '../../src/certified/wire/runs.ts';
import { startRelay } from '../../src/cli/commands/relay.ts';
import { pageFolder } from '../../src/cli/shared/page-folder.ts';
import { dataOfSpec } from '../../src/cli/shared/spec-data.ts';
import { findChromium, openPage } from '../../src/node/net/local-programs.ts';
import { readPage, readTab, servePage } from '../../src/node/net/page-server.ts';
import { canonicalSpec, type RunSpec, runIdOf } from '../../src/run/spec/run-spec.ts';
import { onInterrupt } from '../../src/terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../src/terminal/output.ts';
import { createReporter } from '../../src/terminal/reporter.ts';
import { announce, enlist, type Hand } from '../certified/crew.ts';
import { demoFolder, demoText } from '../shared/data.ts';
import { runSwarm, type WorkerProcess } from '../shared/swarm.ts';
import type { DemoFlags } from '../train/run.ts';
import { type BrowserDocument, createBrowserRecorder } from './document.ts';
import { type TabWatch, tabs, watchTabs } from './tabs.ts';

const NODES = ['alice', 'bob', 'carol'];
const ROUNDS = 8;
const QUICK_ROUNDS = 6;

/** Returns the exit code: 0 when all agree and the run replays in a tab. */
export const runBrowserDemo = (flags: DemoFlags): Promise<number> =>
  withScope(async (scope) => {
    const startedMs = Date.now();
    const program = flags.headless === true ? neededChromium() : undefined;
    const interrupt = onInterrupt();
    scope.defer(interrupt.dispose);
    const { signal } = interrupt;
    const cast = [
      ...NODES.map((name) => ({ name, kind: 'node' as const })),
      ...tabs.map(({ name }) => ({ name, kind: 'tab' as const })),
    ];
    const reporter = createReporter(flags.json || flags.headless ? 'plain' : undefined, {
      title: 'demo browser',
      workers: cast.map(({ name }) => name),
      stream: flags.json ? process.stderr : process.stdout,
    });
    scope.defer(() => reporter.close());
    const onNotice = (message: string) => reporter.notice(message);
    const recorder = createBrowserRecorder(cast);
    const onEvent = (name: string, event: RunEvent) => {
      recorder.take(name, event);
      reporter.event(name, event);
    };

    const dir = resolve(await demoFolder('browser', flags.dir, scope));
    const hands = await Promise.all(NODES.map((name) => enlist(name, dir)));
    const relay = await startRelay({ host: '127.0.0.1', port: 0 });
    scope.defer(() => relay.close());
    const corpus = await demoText({ dir, corpus: flags.corpus, onNotice, signal });
    const spec = await demoSpec(hands, { flags, corpus: corpus.file!, onNotice, signal });
    const file = join(dir, 'run.json');
    await writeFile(file, canonicalSpec(spec));
    await announce(spec, hands[0]!, [relay.url], signal);

    const watch = watchTabs(onEvent);
    const files = [
      ...(await readTab(new Map([[corpus.sha256, corpus.file!]]))),
      ...(await readPage(pageFolder())),
    ];
    const pages = await servePage(new Map(files), {
      host: '127.0.0.1',
      port: 0,
      isolated: true,
      onTold: (text) => watch.told(text),
    });
    scope.defer(() => pages.close());
    const links = linksOf(spec, relay.url, pages.url);
    for (const { name, url } of links) {
      if (program === undefined) onNotice(`${name}: open ${url}`);
      else await openTab(program, url, join(dir, name), scope);
    }
    const nodes = NODES.map((name) =>
      processOf(name, { dir, file, relay: relay.url, corpus: corpus.file! }),
    );
    const exits = await runSwarm(nodes, onEvent, signal);
    signal.throwIfAborted();
    const proved = await rootsOfTabs(watch, recorder.end, signal);
    const wallSeconds = (Date.now() - startedMs) / 1000;
    const document = recorder.document({ proved, reloads: watch.reloads, wallSeconds });
    reporter.close();
    const failed = exits.filter(({ code, stopped }) => code !== 0 && !stopped);
    for (const { name, code, words } of failed)
      writeNote(`${name} failed (exit ${code}): ${words}`);
    return tellEnd(document, flags.json === true) && failed.length === 0 ? 0 : 1;
  });

function neededChromium(): string {
  const program = findChromium();
  if (program !== undefined) return program;
  throw new ConfigError('demo/browser', 'no Chromium was found on this machine', {
    hint: 'install it (Debian: apt-get install chromium), or leave --headless out and open the links yourself',
  });
}

interface SpecOptions {
  readonly flags: DemoFlags;
  readonly corpus: string;
  readonly signal: AbortSignal;
  onNotice(message: string): void;
}

/** A GPT small enough for tabs on the CPU of a laptop; the tabs come later, as anybody may. */
async function demoSpec(
  hands: readonly Hand[],
  { flags, corpus, onNotice, signal }: SpecOptions,
): Promise<RunSpec> {
  const founders = hands.map(({ pubkey }) => pubkey);
  const { quick = false, seed } = flags;
  const { rounds = quick ? QUICK_ROUNDS : ROUNDS, innerSteps = quick ? 4 : 20 } = flags;
  const { spec } = await makeSpec({
    document: {
      name: 'demo browser',
      founders: [...founders].sort(),
      seatWishes: true,
      data: { shards: NODES.length + tabs.length },
      // a GPU in software takes many times as long as the others, who wait for it
      timing: {
        graceMinMs: 20_000,
        graceMaxMs: 60_000,
        deadlineC: 4,
        viewMs: 10_000,
        recoveryMs: 0,
      },
    },
    typed: {},
    training: {
      model: 'char-gpt',
      width: 32,
      layers: 2,
      heads: 2,
      context: 32,
      ffn: 128,
      batchSize: 8,
      innerSteps,
      rounds,
      seed,
    },
    me: founders[0]!,
    ...(await dataOfSpec({ corpus }, { onNotice, signal })),
  });
  return spec;
}

const linksOf = (spec: RunSpec, relay: string, pages: string) => {
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

interface Stage {
  readonly dir: string;
  readonly file: string;
  readonly relay: string;
  readonly corpus: string;
}

/** They begin when the tabs are here. */
function processOf(name: string, { dir, file, relay, corpus }: Stage): WorkerProcess {
  const folder = join(dir, name);
  const all = NODES.length + tabs.length;
  const args = [
    'run',
    'join',
    file,
    '--dir',
    folder,
    '--key-file',
    join(folder, 'key'),
    '--corpus',
    corpus,
    '--relay',
    relay,
    '--wait-for',
    `${all}`,
    '--device',
    'cpu',
    '--threads',
    '1',
    '--heartbeat-interval',
    '10',
    '--report',
    'ndjson',
    ...(name === NODES[0] ? [] : ['--no-evaluate']),
  ];
  return { name, args };
}

/** The root that the page of the run found by replaying; empty where it or a tab failed. */
async function rootsOfTabs(
  watch: TabWatch,
  end: (name: string, root: string) => void,
  signal: AbortSignal,
): Promise<string> {
  for (const [name, ended] of watch.ended) {
    const message = await untilStopped(ended, signal);
    if (message.type === 'failed') {
      writeNote(`${name} failed: ${message.message}`);
      return '';
    }
    end(name, message.root);
  }
  const proof = await untilStopped(watch.verified, signal);
  if (proof.type === 'failed') writeNote(`the page of the run failed: ${proof.message}`);
  return proof.type === 'verified' && proof.ok ? proof.root : '';
}

/** Rejects as soon as somebody stops the demo. */
async function untilStopped<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  return await new Promise<T>((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    void promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** The verdict in words (or JSON); whether all is well. */
function tellEnd(document: BrowserDocument, json: boolean): boolean {
  if (json) writeOut(asJson(document));
  const say = (line: string) => (json ? writeNote(line) : writeOut(`${line}\n`));
  const { agreed, verifiedInPage, rounds, wallSeconds } = document;
  const root = rounds.at(-1)?.root.slice(0, 16);
  say(
    agreed
      ? `tabs and processes hold one root, ${root}…, after ${rounds.length} rounds, ${wallSeconds.toFixed(0)} s`
      : 'tabs and processes do NOT agree',
  );
  say(
    verifiedInPage
      ? 'the run page replayed it and found that root'
      : 'the run page could not replay it',
  );
  return agreed && verifiedInPage;
}
