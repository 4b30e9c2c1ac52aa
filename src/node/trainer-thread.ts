/**
 * The thread that runs onnxruntime: its calls block whatever thread they are made on, so it is never the main one. It
 * holds sessions, data and state, does what it is asked in order, and knows nothing of rounds.
 */
import { parentPort } from 'node:worker_threads';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Answer, Ask, CallName, Calls, Feed, Feeds, OpenRequest } from './trainer-messages.ts';

type Tensors = Record<string, Tensor>;

interface Opened {
  readonly request: OpenRequest;
  readonly data: Readonly<Record<'shard' | 'validation', Tensors>>;
  readonly train: InferenceSession;
  readonly session: (name: 'evaluate' | 'forward') => Promise<InferenceSession>;
  /** The state and a second set of buffers, which results are written into; they change places after every call. */
  state: Tensors;
  spare: Tensors;
  held: Tensor;
}

let opened: Opened | undefined;

function current(): Opened {
  if (!opened) throw new TypeError('the trainer thread was not opened');
  return opened;
}

const sessionOptions = ({ device, threads }: OpenRequest): InferenceSession.SessionOptions => ({
  executionProviders: [device],
  intraOpNumThreads: threads,
  executionMode: 'sequential',
  // the graphs are lowered as they should run; rewriting them would undo the order of some products
  graphOptimizationLevel: 'disabled',
  // a third less memory for the same speed
  enableMemPattern: false,
  logSeverityLevel: 3,
  // waiting threads sleep: spinning ones steal from everybody else on a shared machine
  extra: { session: { intra_op: { allow_spinning: '0' } } },
});

function tensorOf({ elements, shape }: Feed): Tensor {
  if (elements instanceof Float32Array) return new Tensor('float32', elements, shape);
  if (elements instanceof Int32Array) return new Tensor('int32', elements, shape);
  if (elements instanceof BigInt64Array) return new Tensor('int64', elements, shape);
  return new Tensor('uint8', elements, shape);
}

const tensorsOf = (feeds: Feeds = {}): Tensors =>
  Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, tensorOf(feed)]));

const vector = (elements: Float32Array): Tensor =>
  new Tensor('float32', elements, [elements.length]);

async function open(request: OpenRequest): Promise<null> {
  const options = sessionOptions(request);
  const create = (model: Uint8Array) => InferenceSession.create(model, options);
  const later = new Map<string, Promise<InferenceSession>>();
  opened = {
    request,
    data: {
      shard: tensorsOf(request.data.shard),
      validation: tensorsOf(request.data.validation),
    },
    train: await create(request.models.train),
    session: (name) => {
      const session = later.get(name) ?? create(request.models[name]);
      later.set(name, session);
      return session;
    },
    state: {},
    spare: {},
    held: vector(new Float32Array(0)),
  };
  return null;
}

function begin(vectors: readonly Float32Array[]): null {
  const run = current();
  run.state = {};
  run.spare = {};
  run.request.state.forEach((name, i) => {
    run.state[name] = vector(vectors[i]!);
    run.spare[name] = vector(new Float32Array(vectors[i]!.length));
  });
  return null;
}

/** Runs the training model once: the results land in the spare buffers, which then become the state. */
async function turn(run: Opened, feeds: Tensors, losses: string): Promise<Float32Array> {
  const fetches: Record<string, Tensor | null> = { [losses]: null };
  for (const name of run.request.state) fetches[`${name}.next`] = run.spare[name]!;
  const results = await run.train.run({ ...run.state, ...run.data.shard, ...feeds }, fetches);
  [run.state, run.spare] = [run.spare, run.state];
  return floats(results[losses]);
}

async function advance({
  rates,
  rows,
}: Calls['advance']['ask']): Promise<Calls['advance']['answer']> {
  const run = current();
  const { batch, rateCount, loops } = run.request;
  const steps = rows.length / batch;
  const start = performance.now();
  const losses = new Float32Array(steps);
  if (loops) {
    const feeds = {
      steps: new Tensor('int64', BigInt64Array.of(BigInt(steps)), []),
      rates: new Tensor('float32', rates, [steps, rateCount]),
      rows: new Tensor('int32', rows, [steps, batch]),
    };
    losses.set(await turn(run, feeds, 'losses'));
  } else {
    for (let i = 0; i < steps; i++) {
      const feeds = {
        rates: new Tensor('float32', rates.subarray(i * rateCount, (i + 1) * rateCount)),
        rows: new Tensor('int32', rows.subarray(i * batch, (i + 1) * batch)),
      };
      losses.set(await turn(run, feeds, 'loss'), i);
    }
  }
  return { losses, seconds: (performance.now() - start) / 1000 };
}

function finish(): readonly Float32Array[] {
  const run = current();
  const vectors = run.request.state.map((name) => floats(run.state[name]));
  run.state = {};
  run.spare = {};
  return vectors;
}

function hold(params: Float32Array): null {
  current().held = vector(params);
  return null;
}

async function evaluate({ on, rows }: Calls['evaluate']['ask']): Promise<Float32Array> {
  const run = current();
  const session = await run.session('evaluate');
  const losses = new Float32Array(rows.length);
  for (let at = 0; at < rows.length; at += run.request.batch) {
    const results = await session.run({
      ...run.data[on],
      params: run.held,
      rows: new Tensor('int32', rows.subarray(at, at + run.request.batch)),
    });
    losses.set(floats(results.losses), at);
  }
  return losses;
}

async function forward(inputs: Feed): Promise<Float32Array> {
  const run = current();
  const session = await run.session('forward');
  const results = await session.run({ params: run.held, inputs: tensorOf(inputs) });
  return floats(results.predictions);
}

function floats(tensor: Tensor | undefined): Float32Array {
  if (!(tensor?.data instanceof Float32Array)) throw new TypeError('a model gave no f32 result');
  return tensor.data;
}

const calls: { readonly [K in CallName]: (ask: Calls[K]['ask']) => Promise<Calls[K]['answer']> } = {
  open,
  begin: async (ask) => begin(ask),
  advance,
  finish: async () => finish(),
  hold: async (ask) => hold(ask),
  evaluate,
  forward,
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
