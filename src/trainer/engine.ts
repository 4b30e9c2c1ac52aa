/** Runs the trainer threads behind one interface: a single thread, or several replicas that share the work. */

import { TrainingError } from '../base/errors.ts';
import type { Feeds } from '../model/feeds.ts';
import type {
  ArgumentOf,
  CallName,
  OpenRequest,
  ReplicaTraining,
  ResultOf,
  RowLosses,
  SharedState,
  SingleTraining,
  ThreadRequest,
  ThreadResponse,
  TrainerCalls,
} from './messages.ts';
import { CONTROL_LENGTH, resetBarrier } from './replica.ts';

/** The calls of all threads as one. `evaluate` needs a multiple of `rows` rows. */
export interface Engine extends Omit<TrainerCalls, 'open'> {
  readonly rows: number;
  close(): Promise<void>;
}

/** A thread that runs `serveTrainer`. */
export interface TrainerThread {
  post(ask: ThreadRequest, transfer: readonly ArrayBuffer[]): void;
  terminate(): Promise<void>;
}

/** Starts a thread that reports its responses, and its end. */
export type StartThread = (listener: {
  onAnswer(answer: ThreadResponse): void;
  onEnd(message: string, cause?: unknown): void;
}) => TrainerThread;

type Opening = Omit<OpenRequest, 'training' | 'frozen'> & {
  /** Creates the frozen tensors; called once per thread, which takes ownership of them. */
  readonly frozen: () => Promise<Feeds>;
};

/** Opens an engine with one thread; onnxruntime uses all of `opening.threads` inside it. */
export async function openSingle(
  start: StartThread,
  opening: Opening,
  training: SingleTraining,
): Promise<Engine> {
  const [link] = await openLinks(start, [{ ...opening, training }]);
  return {
    ...reading([link!], opening.rows),
    begin: (vectors) => link!.call('begin', vectors),
    advance: (task) => link!.call('advance', task),
    finish: () => link!.call('finish', undefined),
  };
}

/**
 * Opens an engine with one replica per part of the batch, at most `opening.threads`. Threads beyond that go to
 * onnxruntime inside each replica.
 */
export async function openReplicas(
  start: StartThread,
  opening: Opening,
  training: Omit<ReplicaTraining, 'kind' | 'replica' | 'replicas' | 'shared'>,
  size: number,
): Promise<Engine> {
  const { parts, state, updates } = training;
  const replicas = Math.min(opening.threads, parts);
  const shared = shareState(size, state.length, { parts, ranges: updates.length });
  const threads = Math.floor(opening.threads / replicas);
  const links = await openLinks(
    start,
    Array.from({ length: replicas }, (_, replica) => ({
      ...opening,
      threads,
      training: { ...training, kind: 'replica' as const, replica, replicas, shared },
    })),
  );
  return {
    ...reading(links, opening.rows),
    begin: async (vectors) => {
      resetBarrier(shared.control);
      shared.state.forEach((values, i) => {
        values.set(vectors[i]!);
      });
    },
    advance: async (task) => {
      const [first] = await Promise.all(links.map((link) => link.call('advance', task)));
      return first!;
    },
    finish: async () => shared.state.map((values) => Float32Array.from(values)),
  };
}

/** The calls that do not train. Every thread has the parameters; rows to evaluate are divided evenly. */
function reading(
  links: readonly TrainerLink[],
  rows: number,
): Omit<Engine, 'begin' | 'advance' | 'finish'> {
  return {
    rows,
    setParams: async (params) => {
      await Promise.all(links.map((link) => link.call('setParams', params)));
    },
    evaluate: async ({ on, rows: all }) => {
      const share = Math.ceil(all.length / rows / links.length) * rows;
      const answers = await Promise.all(
        links.map((link, i) =>
          link.call('evaluate', { on, rows: all.slice(i * share, (i + 1) * share) }),
        ),
      );
      const joined = (name: keyof RowLosses) =>
        Float32Array.from(answers.flatMap((part) => [...(part[name] ?? [])]));
      const hits = joined('hits');
      const evaluated = { losses: joined('losses'), counts: joined('counts') };
      return hits.length > 0 ? { ...evaluated, hits } : evaluated;
    },
    forward: (inputs) => links[0]!.call('forward', inputs),
    openReader: (request) => links[0]!.call('openReader', request),
    read: (ask) => links[0]!.call('read', ask),
    close: async () => {
      await Promise.all(links.map((link) => link.close()));
    },
  };
}

/** Opens one thread per request. If one fails to open, all are closed. */
async function openLinks(
  start: StartThread,
  requests: readonly (Opening & Pick<OpenRequest, 'training'>)[],
): Promise<readonly TrainerLink[]> {
  const links = requests.map(() => createTrainerLink(start));
  try {
    await Promise.all(
      requests.map(async (request, i) => {
        const frozen = await request.frozen();
        await links[i]!.call('open', { ...request, frozen }, buffersOf(frozen));
      }),
    );
    return links;
  } catch (error) {
    await Promise.all(links.map((link) => link.close()));
    throw error;
  }
}

/** Returns each buffer once, to be transferred to the thread instead of copied. */
function buffersOf(feeds: Feeds): readonly ArrayBuffer[] {
  const buffers = Object.values(feeds).map(({ elements }) => elements.buffer);
  return [...new Set(buffers.filter((buffer) => buffer instanceof ArrayBuffer))];
}

function shareState(
  size: number,
  vectors: number,
  { parts, ranges }: { readonly parts: number; readonly ranges: number },
): SharedState {
  const floats = (length: number) => new Float32Array(new SharedArrayBuffer(4 * length));
  return {
    control: new Int32Array(new SharedArrayBuffer(4 * CONTROL_LENGTH)),
    state: Array.from({ length: vectors }, () => floats(size)),
    gradients: Array.from({ length: parts }, () => floats(size)),
    losses: floats(parts),
    counts: floats(parts),
    squares: floats(ranges),
  };
}

interface TrainerLink {
  call<K extends CallName>(
    call: K,
    ask: ArgumentOf<K>,
    transfer?: readonly ArrayBuffer[],
  ): Promise<ResultOf<K>>;
  close(): Promise<void>;
}

interface Pending {
  readonly settle: (answer: unknown) => void;
  readonly fail: (error: Error) => void;
}

/** Starts a trainer thread and matches its responses to calls. */
function createTrainerLink(start: StartThread): TrainerLink {
  const pending = new Map<number, Pending>();
  let calls = 0;
  let broken: TrainingError | undefined;
  const breakOff = (message: string, cause?: unknown) => {
    broken ??= new TrainingError('training/thread', message, {
      hint:
        'the state before this round is saved: run the same command again, with fewer --threads ' +
        'if memory is short',
      cause,
    });
    for (const { fail } of pending.values()) fail(broken);
    pending.clear();
  };
  const thread = start({
    onAnswer: (answer) => {
      const waiting = pending.get(answer.id);
      pending.delete(answer.id);
      if (answer.ok) waiting?.settle(answer.answer);
      else waiting?.fail(new TrainingError('training/failed', answer.message));
    },
    onEnd: breakOff,
  });
  return {
    call: async <K extends CallName>(
      call: K,
      ask: ArgumentOf<K>,
      transfer: readonly ArrayBuffer[] = [],
    ) => {
      if (broken) throw broken;
      const id = calls++;
      const answer = await new Promise<unknown>((settle, fail) => {
        pending.set(id, { settle, fail });
        thread.post({ id, call, ask } as ThreadRequest, transfer);
      });
      return answer as ResultOf<K>;
    },
    close: () => thread.terminate(),
  };
}
