/**
 * A thread that runs onnxruntime: its calls block whatever thread they are made on, so it is never the main one. It does
 * what it is asked in order and knows nothing of rounds.
 */
import { parentPort } from 'node:worker_threads';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type DataSource, openSource } from './data-source.ts';
import type {
  Answer,
  Ask,
  CallName,
  Calls,
  DataName,
  Feed,
  OpenRequest,
  ReadingRequest,
  RowLosses,
} from './messages.ts';
import { createReplicaStepper } from './replica.ts';
import { createSession, floats, type Tensors, tensorOf, tensorsOf, vector } from './sessions.ts';
import { createSingleStepper, type Stepper } from './single.ts';
import { createTextReader } from './text-reader.ts';

interface Opened {
  readonly rows: number;
  readonly data: Readonly<Record<DataName, DataSource>>;
  readonly frozen: Tensors;
  readonly stepper: Stepper;
  readonly threads: number;
  /** Loaded when first needed. */
  readonly session: (name: 'evaluate' | 'forward') => Promise<InferenceSession>;
  held: Tensor;
  reader?: ReturnType<typeof createTextReader>;
}

let opened: Opened | undefined;

function current(): Opened {
  if (!opened) throw new TypeError('the trainer thread was not opened');
  return opened;
}

async function open(request: OpenRequest): Promise<null> {
  const { device, threads, training } = request;
  const frozen = tensorsOf(request.frozen);
  const data = {
    shard: openSource(request.data.shard),
    validation: openSource(request.data.validation),
  };
  const shard = { source: data.shard, frozen };
  const sessions = new Map<string, Promise<InferenceSession>>();
  opened = {
    rows: request.rows,
    data,
    ...{ frozen, threads },
    stepper:
      training.kind === 'single'
        ? await createSingleStepper(training, device, threads, shard)
        : await createReplicaStepper(training, device, threads, shard),
    session: (name) => {
      const session = sessions.get(name) ?? createSession(request[name], device, threads);
      sessions.set(name, session);
      return session;
    },
    held: vector(new Float32Array(0)),
  };
  return null;
}

async function evaluate({ on, rows }: Calls['evaluate']['ask']): Promise<RowLosses> {
  const { session, data, frozen, held, rows: count } = current();
  const model = await session('evaluate');
  const losses = new Float32Array(rows.length);
  const counts = new Float32Array(rows.length).fill(1);
  for (let at = 0; at < rows.length; at += count) {
    const own = data[on].at(rows.slice(at, at + count));
    const feeds = { ...frozen, ...own.tensors, rows: new Tensor('int32', own.rows) };
    const results = await model.run({ ...feeds, params: held });
    losses.set(floats(results.losses), at);
    if (results.counts) counts.set(floats(results.counts), at);
  }
  return { losses, counts };
}

async function forward(inputs: Feed): Promise<Float32Array> {
  const { session, held, frozen } = current();
  const model = await session('forward');
  const results = await model.run({ ...frozen, params: held, inputs: tensorOf(inputs) });
  return floats(results.predictions);
}

/** Views of the held parameters by name, beside the frozen tensors. */
async function openReader({ programs, slots, capacity, ...sizes }: ReadingRequest): Promise<null> {
  const { held, frozen, reader, threads } = current();
  const params = floats(held);
  const own = slots.map(({ name, shape, offset, size }) => {
    const view = params.subarray(offset, offset + size);
    return [name, new Tensor('float32', view, shape)] as const;
  });
  await reader?.close();
  const compile = ({ tokens }: { readonly tokens: number }) => programs.get(tokens)!;
  current().reader = createTextReader({
    decoding: { ...sizes, compile },
    tensors: { ...frozen, ...Object.fromEntries(own) },
    ...{ capacity, threads },
  });
  return null;
}

async function read({ tokens, begins }: Calls['read']['ask']): Promise<Float32Array> {
  const { reader } = current();
  if (!reader) throw new TypeError('no reader was opened');
  if (begins) reader.clear();
  return reader.read(tokens);
}

const calls: { readonly [K in CallName]: (ask: Calls[K]['ask']) => Promise<Calls[K]['answer']> } = {
  open,
  begin: async (vectors) => {
    current().stepper.begin(vectors);
    return null;
  },
  advance: (task) => current().stepper.advance(task),
  finish: async () => current().stepper.finish(),
  hold: async (params) => {
    current().held = vector(params);
    return null;
  },
  evaluate,
  forward,
  openReader,
  read,
};

const answerTo = async <K extends CallName>(call: K, ask: Calls[K]['ask']) => calls[call](ask);

/** Whole buffers among the parts of an answer: handed over rather than copied. */
function buffersOf(answer: Calls[CallName]['answer']): ArrayBuffer[] {
  const arrays = Array.isArray(answer) ? answer : [];
  return arrays.flatMap((array) =>
    array instanceof Float32Array && array.buffer instanceof ArrayBuffer ? [array.buffer] : [],
  );
}

const port = parentPort;
let last: Promise<void> = Promise.resolve();
port?.on('message', ({ id, call, ask }: Ask) => {
  last = last.then(async () => {
    try {
      const answer = await answerTo(call, ask);
      port.postMessage({ id, ok: true, answer } satisfies Answer, buffersOf(answer));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      port.postMessage({ id, ok: false, message } satisfies Answer);
    }
  });
});
