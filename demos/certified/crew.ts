/** The seven workers of `nostrain demo certified`, and what happens to each in which round; at most two at once. */
import { join } from 'node:path';
import type { RunSpec, Trainer } from 'nostrain';
import { nativeCrypto, nativeSha256 } from 'nostrain/node';
import type { Scope } from '../../src/base/async.ts';
import { shardSettings } from '../../src/certified/make-spec.ts';
import { createRefreshPort, readStakeFile } from '../../src/cli/shared/stake-refresh.ts';
import { fixedData } from '../../src/node/engine/task-trainer.ts';
import { certifiedProtocol, tablesOf } from '../../src/node/join/join-run.ts';
import { runWorkerSession } from '../../src/node/worker-session.ts';
import { settingsOf } from '../../src/run/spec/read-spec.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import type { Hand } from '../shared/certified.ts';
import type { Stage } from '../shared/stage.ts';
import {
  type Exit,
  joinLine,
  type OnEvent,
  type Running,
  startWorker,
  type WorkerProcess,
} from '../shared/swarm.ts';
import { type Attack, startAdversary } from './adversary.ts';

interface CrewMember {
  readonly name: string;
  readonly attack?: Attack;
  /** Sends the opposite of what it learned. */
  readonly flips?: boolean;
  /** The rounds after which it is killed and restarted. */
  readonly away?: { readonly after: number; readonly until: number };
}

/** The crew; the first worker is honest and never killed. */
export const crew: readonly CrewMember[] = [
  { name: 'alice' },
  { name: 'bob' },
  { name: 'carol' },
  { name: 'dave', attack: { silent: { from: 1, to: 2 } } },
  { name: 'erin', flips: true },
  { name: 'frank', away: { after: 2, until: 4 } },
  { name: 'grace', attack: { equivocateFrom: 5 } },
];

/** Options that the workers of the crew are started with. */
interface CrewRun {
  readonly dir: string;
  readonly file: string;
  readonly spec: RunSpec;
  readonly hands: readonly Hand[];
  /** The relays of each worker, by name. */
  readonly relays: ReadonlyMap<string, readonly string[]>;
  readonly corpus: string;
  readonly stakeFile: string;
}

/** Returns the relay addresses of each worker: the relays, or adversary proxies in front of them. */
export async function relaysOf(
  hands: readonly Hand[],
  relays: readonly string[],
  scope: Scope,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const entries = crew.map(async ({ name, attack }, i) => {
    const given = attack ? startAdversary(relays, hands[i]!.signer, attack, scope) : relays;
    return [name, await given] as const;
  });
  return new Map(await Promise.all(entries));
}

interface Watch extends Pick<Stage, 'onNotice' | 'signal'> {
  readonly onEvent: OnEvent;
}

/** Runs all workers to the end of the run; a stop ends all of them. */
export async function playCrew(
  run: CrewRun,
  { onEvent, onNotice, signal }: Watch,
): Promise<readonly Exit[]> {
  const running = new Map<string, Running>();
  const take: OnEvent = (name, event) => {
    onEvent(name, event);
    if (name !== crew[0]!.name || event.type !== 'round') return;
    for (const member of crew) {
      if (member.away?.after === event.index) {
        onNotice(`${member.name} is killed`);
        running.get(member.name)?.kill('SIGKILL');
      }
      if (member.away?.until === event.index) {
        onNotice(`${member.name} is restarted`);
        start(member);
      }
    }
  };
  function start(member: CrewMember): void {
    const { name, away } = member;
    const worker = member.flips
      ? startSignFlipper(name, { ...run, ...placeInRun(member, run) }, take)
      : startWorker(processOf(member, run), take);
    running.set(name, worker);
    // without it the others would wait forever
    if (!away) void worker.exit.then(({ code }) => code !== 0 && stop());
  }
  const stop = () => {
    for (const { kill } of running.values()) kill('SIGINT');
  };
  signal.addEventListener('abort', stop, { once: true });
  crew.forEach(start);
  // a killed member has been restarted by the time the others end
  const staying = crew.filter(({ away }) => away === undefined);
  await Promise.all(staying.map(({ name }) => running.get(name)!.exit));
  const exits = await Promise.all([...running.values()].map(({ exit }) => exit));
  signal.removeEventListener('abort', stop);
  return exits;
}

const placeInRun = ({ name }: CrewMember, { dir, relays }: CrewRun) => ({
  folder: join(dir, name),
  relays: relays.get(name)!,
  workers: crew.length,
});

/** Returns the process of one worker; only the first one evaluates. */
function processOf(member: CrewMember, run: CrewRun): WorkerProcess {
  const { name } = member;
  const evaluates = name === crew[0]!.name;
  const line = { ...placeInRun(member, run), corpus: run.corpus, evaluates, threads: 1 };
  return { name, args: joinLine(run.file, line, { stake: run.stakeFile, device: 'cpu' }) };
}

const FACTOR = -10;

type FlipperRun = Omit<CrewRun, 'relays'> & ReturnType<typeof placeInRun>;

/** Starts the worker that sends the opposite of what it learned, in this process, since no command does that. */
function startSignFlipper(name: string, run: FlipperRun, take: OnEvent): Running {
  const abort = new AbortController();
  const exit = trainFlipped(name, run, take, abort.signal).then(
    () => ({ name, code: 0, words: '', stopped: false }),
    (error: unknown) => {
      const stopped = abort.signal.aborted;
      return { name, code: stopped ? 0 : 1, words: String(error), stopped };
    },
  );
  return { exit, kill: () => abort.abort(new Error('stopped')) };
}

async function trainFlipped(
  name: string,
  { spec, hands, folder, relays, corpus, stakeFile, workers }: FlipperRun,
  take: OnEvent,
  signal: AbortSignal,
): Promise<void> {
  const given = await readStakeFile(stakeFile);
  const { pubkey } = hands.find((hand) => hand.name === name)!;
  const settings = settingsOf(spec, {
    ...shardSettings(spec, pubkey, {}),
    relay: relays,
    waitFor: workers,
    heartbeatInterval: 10,
    evaluate: false,
  });
  await runWorkerSession({
    settings,
    dir: folder,
    corpus,
    report: (event) => take(name, event),
    signal,
    keyFile: join(folder, 'key'),
    fixed: fixedData(spec, undefined),
    protocol: certifiedProtocol({
      spec,
      sha256: nativeSha256,
      crypto: nativeCrypto,
      tables: tablesOf(given),
      stakes: createRefreshPort(spec, { given }, relays, signal),
    }),
    connection: connectionOf({ timeout: 10 }),
    device: 'cpu',
    threads: 1,
    changeTrainer: flipped,
  });
}

const flipped = (trainer: Trainer): Trainer => ({
  ...trainer,
  async train(task, onProgress, signal) {
    const trained = await trainer.train(task, onProgress, signal);
    const params = task.params.map((value, i) => value + FACTOR * (trained.params[i]! - value));
    return { ...trained, params };
  },
});
