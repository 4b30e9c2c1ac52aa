/** The trainer threads as one: a single thread that does everything, or several replicas that share the work. */

import { TrainingError } from '../base/errors.ts';
import type { Feeds } from '../model/forms/form.ts';
import type {
  Answer,
  AnswerTo,
  Ask,
  AskOf,
  CallName,
  OpenRequest,
  ReplicaTraining,
  RowLosses,
  SharedState,
  SingleTraining,
  TrainerCalls,
} from './messages.ts';
import { CONTROL_LENGTH, resetBarrier } from './replica.ts';

/** The calls of all threads as one; `evaluate` takes multiples of `rows` rows. */
export interface Engine extends Omit<TrainerCalls, 'open'> {
  readonly rows: number;
  close(): Promise<void>;
}

/** A thread that `serveTrainer` answers in. */
export interface TrainerThread {
  post(ask: Ask, handOver: readonly ArrayBuffer[]): void;
  terminate(): Promise<void>;
}

/** Starts one, which tells of its answers, and of its end. */
export type StartThread = (hears: {
  onAnswer(answer: Answer): void;
  onEnd(message: string, cause?: unknown): void;
}) => TrainerThread;

type Opening = Omit<OpenRequest, 'training' | 'frozen'> & {
  /** Makes the frozen tensors, once for each thread, which takes them over. */
  readonly frozen: () => Promise<Feeds>;
};

/** One thread, with as many threads inside onnxruntime as it is given. */
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

/** `threads` replicas at most; more threads than parts are left to onnxruntime inside each replica. */
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

/** The part that does not train: every thread holds the parameters, rows are dealt out evenly. */
function reading(
  links: readonly TrainerLink[],
  rows: number,
): Omit<Engine, 'begin' | 'advance' | 'finish'> {
  return {
    rows,
    hold: async (params) => {
      await Promise.all(links.map((link) => link.call('hold', params)));
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
      const told = { losses: joined('losses'), counts: joined('counts') };
      return hits.length > 0 ? { ...told, hits } : told;
    },
    forward: (inputs) => links[0]!.call('forward', inputs),
    openReader: (request) => links[0]!.call('openReader', request),
    read: (ask) => links[0]!.call('read', ask),
    close: async () => {
      await Promise.all(links.map((link) => link.close()));
    },
  };
}

/** One thread per request; all of them end when one does not open. */
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

/** Each buffer once, to be handed over rather than copied. */
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
    ask: AskOf<K>,
    handOver?: readonly ArrayBuffer[],
  ): Promise<AnswerTo<K>>;
  close(): Promise<void>;
}

interface Pending {
  readonly settle: (answer: unknown) => void;
  readonly fail: (error: Error) => void;
}

/** Starts a trainer thread. */
function createTrainerLink(start: StartThread): TrainerLink {
  const pending = new Map<number, Pending>();
  let calls = 0;
  let broken: TrainingError | undefined;
  const breakOff = (message: string, cause?: unknown) => {
    broken ??= new TrainingError('training/thread', message, {
      hint:
        'the state before this round is kept: start again, with fewer --threads if memory ' +
        'is short',
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
      ask: AskOf<K>,
      handOver: readonly ArrayBuffer[] = [],
    ) => {
      if (broken) throw broken;
      const id = calls++;
      const answer = await new Promise<unknown>((settle, fail) => {
        pending.set(id, { settle, fail });
        thread.post({ id, call, ask } as Ask, handOver);
      });
      return answer as AnswerTo<K>;
    },
    close: () => thread.terminate(),
  };
}
