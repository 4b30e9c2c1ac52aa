/**
 * `nostrain demo experts`: two groups train experts of one model on two corpora; one group is killed for five rounds.
 * Dense models, each trained by one group alone, show what the merged model is worth.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRelay } from 'nostrain/relay';
import { prepareTask } from '../../src/node/data/task.ts';
import { openTrainer } from '../../src/node/engine/task-trainer.ts';
import { readStateFile } from '../../src/node/files/state-file.ts';
import { numbersFor } from '../../src/node/files/trained-run.ts';
import { completeSettings, type PartialSettings } from '../../src/run/settings.ts';
import { presets } from '../../src/run/spec/presets.ts';
import { exitCodes } from '../../src/terminal/output.ts';
import { certify, enlist, smallGpt } from '../shared/certified.ts';
import { demoText } from '../shared/data.ts';
import { EventLog } from '../shared/document.ts';
import { runLogged } from '../shared/play.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import {
  type Exit,
  joinLine,
  keepSettings,
  type OnEvent,
  type Running,
  startWorker,
  trainLine,
} from '../shared/swarm.ts';

interface Group {
  readonly name: string;
  readonly experts: string;
  readonly workers: readonly string[];
}

/** The first group has a third worker, so that it is a quorum of five while the other group is away. */
const GROUPS: readonly [Group, Group] = [
  { name: 'shakespeare', experts: '0,1', workers: ['alice', 'bob', 'carol'] },
  { name: 'code', experts: '2,3', workers: ['dave', 'erin'] },
];
const NAMES = GROUPS.flatMap(({ workers }) => workers);
/** Rounds after which the second group is killed, and started again. */
const AWAY = { after: 4, until: 9 };
const ROUNDS = 20;
const STEPS = { usual: 20, quick: 4 };
/** Bytes of each corpus: a few passes in the time of a demo. */
const CORPUS_BYTES = 240_000;
/** Share of a corpus that no worker trains on. */
const EVALUATION_SHARE = 1 / 10;
const EVALUATE_BATCHES = 32;

const dense = { ...smallGpt, width: 64, ffn: 124, tokens: 'bytes' } as const;
/** Each token passes through two experts, half as wide as the feed-forward layers of the dense models. */
const model = { ...dense, ffn: dense.ffn / 2 };
const mixture = {
  experts: 4,
  groups: GROUPS.map(({ name, experts }) => `${name}=${experts}`),
  expertsPerToken: 2,
};
/** Event bytes of a contribution: half the payload of a dense one, which has two bits for each value. */
const EVENT_BUDGET = 18_600;
const timing = { graceMinMs: 5000, graceMaxMs: 120_000, deadlineC: 4, viewMs: 20_000 };

interface CorpusLoss {
  readonly corpus: string;
  /** Group that trained the dense model. */
  readonly group: string;
  /** Loss per byte of that model on held-out text of the corpus. */
  readonly specialist: number;
  /** Loss per byte of the model with the experts of all groups. */
  readonly merged: number;
}

export interface ExpertsDocument {
  /** Every worker finished with the same digest. */
  readonly agreed: boolean;
  /** Rounds of the first worker with contributions; the other group was away in five of all rounds. */
  readonly rounds: number;
  readonly losses: readonly CorpusLoss[];
  /** Mean bytes of a worker's contributions, divided by those of a dense model. */
  readonly bytesAgainstDense: number;
  readonly wallSeconds: number;
}

interface GroupData {
  /** Training text of each worker. */
  readonly files: readonly string[];
  readonly evaluation: Uint8Array;
}

/** Runs the demo. Returns exit code 0 if all workers agree after a group was away for five rounds. */
export const runExpertsDemo = (flags: DemoFlags): Promise<number> =>
  onStage(flags, { name: 'experts', workers: NAMES }, async (stage) => {
    const relay = await createRelay();
    stage.scope.defer(() => relay.close());
    const relays = [relay.url];
    const steps = flags.quick ? STEPS.quick : STEPS.usual;
    const extent = { rounds: ROUNDS, innerSteps: flags.innerSteps ?? steps, seed: flags.seed };
    const texts = [await readFile((await demoText(stage)).file), await programText()];
    const data: GroupData[] = [];
    for (const [i, group] of GROUPS.entries()) data.push(await divide(group, texts[i]!, stage));
    const { log, exits } = await playGroups(extent, data, relays, stage);
    stage.signal.throwIfAborted();
    const settings = { ...model, ...mixture };
    const merged = await lossesOf(join(stage.dir, NAMES[0]!), settings, data, stage);
    const losses: CorpusLoss[] = [];
    const bytes: number[] = [];
    for (const [i, group] of GROUPS.entries()) {
      stage.onNotice(`a dense model on ${group.name} alone`);
      const alone = await playAlone(group, extent, data[i]!, relays, stage);
      const specialist = await lossesOf(alone.folder, dense, data, stage);
      GROUPS.forEach(({ name: corpus }, at) => {
        const pair = { specialist: specialist[at]!, merged: merged[at]! };
        losses.push({ corpus, group: group.name, ...pair });
      });
      bytes.push(bytesIn(log, group.workers) / bytesIn(alone.log, group.workers));
    }
    const digests = new Set([...log.dones.values()].map(({ digest }) => digest));
    const document: ExpertsDocument = {
      agreed: log.dones.size === NAMES.length && digests.size === 1,
      rounds: log.inOrder().filter(([, reported]) => reported.get(NAMES[0]!)?.accepted.length)
        .length,
      losses,
      bytesAgainstDense: Math.max(...bytes),
      wallSeconds: stage.wallSeconds(),
    };
    if (stage.end(document, exits) || !document.agreed) return stage.endWithoutAgreement(exits);
    printVerdict(document, stage);
    return exitCodes.done.code;
  });

/** Returns text of this program: its sources, or its compiled files if it is installed. */
async function programText(): Promise<Uint8Array> {
  const folder = fileURLToPath(new URL('../../src', import.meta.url));
  const entries = await readdir(folder, { recursive: true });
  const files = entries.filter((name) => extname(name) === extname(import.meta.url)).sort();
  let text = '';
  for (const file of files) {
    if (text.length >= CORPUS_BYTES) break;
    text += await readFile(join(folder, file), 'utf8');
  }
  return Buffer.from(text);
}

/** Writes a part of the corpus for each worker of the group. */
async function divide(group: Group, text: Uint8Array, { dir }: Stage): Promise<GroupData> {
  const used = text.subarray(0, CORPUS_BYTES);
  const end = Math.floor(used.length * (1 - EVALUATION_SHARE));
  const share = Math.floor(end / group.workers.length);
  const files: string[] = [];
  for (const [i, name] of group.workers.entries()) {
    const file = join(dir, `${name}.txt`);
    await writeFile(file, used.subarray(i * share, (i + 1) * share));
    files.push(file);
  }
  return { files, evaluation: used.subarray(end) };
}

type Extent = Pick<PartialSettings, 'innerSteps' | 'seed'> & { readonly rounds: number };

/** Plays the certified run of all groups, in which the second group is killed and started again. */
async function playGroups(
  extent: Extent,
  data: readonly GroupData[],
  relays: readonly string[],
  stage: Stage,
): Promise<{ readonly log: EventLog; readonly exits: readonly Exit[] }> {
  const { dir, signal, onNotice } = stage;
  const hands = [];
  for (const name of NAMES) hands.push(await enlist(name, dir));
  const { file } = await certify(hands, {
    name: 'experts',
    dir,
    relays,
    corpus: undefined,
    onNotice,
    signal,
    training: { ...model, ...extent, eventBudget: EVENT_BUDGET },
    rules: {
      mixture,
      timing,
      committee: { quorum: 'cft' },
      data: { kind: 'own' },
      // a group that is away stays in the roster
      absentRounds: ROUNDS,
    },
  });
  const log = new EventLog();
  const running = new Map<string, Running>();
  const start = (group: Group, at: number) => {
    group.workers.forEach((name, i) => {
      const folder = join(dir, name);
      const corpus = data[at]!.files[i];
      const line = { folder, workers: NAMES.length, relays, corpus, evaluates: false, threads: 1 };
      running.set(
        name,
        startWorker({ name, args: joinLine(file, line, { group: group.name }) }, take),
      );
    });
  };
  const [, away] = GROUPS;
  const take: OnEvent = (name, event) => {
    log.take(name, event);
    stage.report(name, event);
    if (name !== NAMES[0] || event.type !== 'round') return;
    if (event.index === AWAY.after) {
      onNotice(`group ${away.name} is killed`);
      for (const each of away.workers) running.get(each)!.kill('SIGKILL');
    }
    if (event.index === AWAY.until) {
      onNotice(`group ${away.name} is started again`);
      start(away, 1);
    }
  };
  const stop = () => {
    for (const { kill } of running.values()) kill('SIGINT');
  };
  signal.addEventListener('abort', stop, { once: true });
  GROUPS.forEach(start);
  await Promise.all(GROUPS[0].workers.map((name) => running.get(name)!.exit));
  const exits = await Promise.all([...running.values()].map(({ exit }) => exit));
  signal.removeEventListener('abort', stop);
  return { log, exits };
}

async function playAlone(
  { name, workers }: Group,
  extent: Extent,
  { files }: GroupData,
  relays: readonly string[],
  stage: Stage,
): Promise<{ readonly log: EventLog; readonly folder: string }> {
  const dir = join(stage.dir, `${name}-alone`);
  await mkdir(dir, { recursive: true });
  for (const worker of workers) await enlist(worker, dir);
  const settings = await keepSettings(dir, {
    ...dense,
    ...extent,
    run: `demo-${name}`,
    owners: 0,
    heartbeatInterval: 10,
    sync: { strategy: 'strict', workers: workers.length },
  });
  const processes = workers.map((worker, i) => {
    const line = { folder: join(dir, worker), workers: workers.length, relays, evaluates: false };
    return {
      name: worker,
      args: trainLine(settings, { ...line, corpus: files[i], threads: 1 }, {}),
    };
  });
  const { log } = await runLogged(processes, () => undefined, stage.signal);
  return { log, folder: join(dir, workers[0]!) };
}

/** Returns the losses of the state in a folder on the held-out text of each corpus. */
async function lossesOf(
  folder: string,
  of: PartialSettings,
  data: readonly GroupData[],
  { onNotice, signal }: Stage,
): Promise<readonly number[]> {
  const settings = completeSettings(presets['char-gpt'], { ...of, run: 'experts', relay: [] });
  const state = await readStateFile(folder);
  const losses: number[] = [];
  for (const { files, evaluation } of data) {
    const fixed = { evaluation };
    const task = await prepareTask(settings, { corpus: files[0], fixed, onNotice, signal });
    const trainer = await openTrainer(task, { settings, device: 'cpu' });
    try {
      const { layout, values } = state;
      const numbers = numbersFor({ layout, values: Float32Array.from(values) }, trainer.layout)!;
      losses.push(await trainer.evaluate(numbers, 'validation', { batches: EVALUATE_BATCHES }));
    } finally {
      await trainer.close();
    }
  }
  return losses;
}

/** Returns the mean bytes of a worker's contributions. */
function bytesIn(log: EventLog, [worker]: readonly string[]): number {
  const bytes = log
    .inOrder()
    .flatMap(([, reported]) => reported.get(worker!) ?? [])
    .map(({ payloadBytes }) => payloadBytes)
    .filter((each) => each > 0);
  return bytes.reduce((sum, each) => sum + each, 0) / bytes.length;
}

function printVerdict(
  { rounds, losses, bytesAgainstDense, wallSeconds }: ExpertsDocument,
  { say }: Stage,
) {
  say(`all ${NAMES.length} workers agree after ${rounds} rounds, ${wallSeconds.toFixed(0)} s`);
  say('loss per byte on held-out text: corpus, dense model of, its loss, loss of the merged model');
  for (const { corpus, group, specialist, merged } of losses) {
    say(
      `  ${corpus.padEnd(12)} ${group.padEnd(12)} ${specialist.toFixed(3)}  ${merged.toFixed(3)}`,
    );
  }
  say(`a contribution has ${bytesAgainstDense.toFixed(2)} of the bytes of a dense one`);
}
