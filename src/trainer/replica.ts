/**
 * Training in several threads: each replica computes the gradients of some parts of the batch, then combines and
 * updates its own ranges of the vectors. Sums follow the order of parts and ranges, so the bits do not depend on the
 * number of replicas or on their speed.
 */
import type { InferenceSession } from 'onnxruntime-common';
import { clipFactorOf } from '../model/optimizers/optimizer.ts';
import type { Range } from '../tensor/partial-vector.ts';
import type { Advance, Advanced, Device, ReplicaTraining } from './messages.ts';
import { floats, type Runtime, runInto, type Tensors, vector } from './runtime.ts';
import type { ShardFeeds, Stepper } from './stepper.ts';

/** A range of the flat vectors that one replica updates. */
interface ReplicaRange extends Range {
  readonly index: number;
  readonly session: InferenceSession;
  readonly gradient: Float32Array;
  /** Parameters and moments of the range. `next` holds the buffers for the result of the next step. */
  state: readonly Float32Array[];
  next: readonly Float32Array[];
}

interface Replica {
  readonly ort: Runtime;
  readonly training: ReplicaTraining;
  readonly barrier: Barrier;
  readonly shard: ShardFeeds;
  readonly gradientModel: InferenceSession;
  readonly combineModel: InferenceSession;
  readonly ranges: readonly ReplicaRange[];
  // onnxruntime cannot read shared memory: each replica has its own copy of the parameters and of one gradient
  readonly params: Float32Array;
  readonly gradient: Float32Array;
  /** One block of every part's gradient, one after the other. */
  readonly stack: Float32Array;
}

/** Gradient values combined at a time; a block fits into the CPU cache whatever the model's size. */
const BLOCK = 1 << 18;

export async function createReplicaStepper(
  training: ReplicaTraining,
  device: Device,
  threads: number,
  shard: ShardFeeds,
  ort: Runtime,
): Promise<Stepper> {
  const { shared, replica: number, replicas, parts } = training;
  const size = shared.state[0]!.length;
  const replica: Replica = {
    training,
    ort,
    barrier: createBarrier(shared.control, replicas),
    shard,
    gradientModel: await ort.createSession(training.gradient, device, threads),
    combineModel: await ort.createSession(training.combine, device, threads),
    ranges: await openRanges(training, (model) => ort.createSession(model, device, threads)),
    params: new Float32Array(size),
    gradient: new Float32Array(size),
    stack: new Float32Array(parts * Math.min(BLOCK, size)),
  };
  return {
    begin: async () => {},
    advance: async (task) => {
      try {
        return await advance(replica, task);
      } catch (error) {
        replica.barrier.fail();
        throw error;
      }
    },
    finish: async () => {
      throw new TypeError(`replica ${number} keeps its state in shared memory`);
    },
  };
}

async function advance(replica: Replica, { rates, rows }: Advance): Promise<Advanced> {
  const start = performance.now();
  const { parts, rowsPerPart, rateCount, shared } = replica.training;
  const batch = parts * rowsPerPart;
  const losses = new Float32Array(rows.length / batch);
  replica.params.set(shared.state[0]!);
  for (const range of replica.ranges) loadRange(range, shared.state);
  for (let i = 0; i < losses.length; i++) {
    const stepRates = rates.slice(i * rateCount, (i + 1) * rateCount);
    const loss = await step(replica, rows.subarray(i * batch, (i + 1) * batch), stepRates);
    if (loss === undefined) break;
    losses[i] = loss;
  }
  for (const range of replica.ranges) storeRange(range, shared.state);
  return { losses, seconds: (performance.now() - start) / 1000 };
}

/** Takes one step and returns the loss before it; undefined if another replica failed. */
async function step(
  replica: Replica,
  rows: Int32Array,
  rates: Float32Array,
): Promise<number | undefined> {
  const { barrier, ranges, params } = replica;
  const { shared, parts, masked } = replica.training;
  await differentiate(replica, rows);
  if (!barrier.meet()) return undefined;
  // losses and counts of the parts do not change before the last barrier of the step
  const shares = masked ? sharesOf(shared.counts) : undefined;
  const loss = shares
    ? shared.losses.reduce((sum, part, i) => sum + part * shares[i]!, 0)
    : shared.losses.reduce((sum, part) => sum + part, 0) / parts;
  for (const range of ranges) await combine(replica, range, shares);
  if (!barrier.meet()) return undefined;
  for (const range of ranges) await update(replica, range, rates);
  if (!barrier.meet()) return undefined;
  params.set(shared.state[0]!);
  return loss;
}

async function differentiate(replica: Replica, all: Int32Array): Promise<void> {
  const { ort, barrier, shard, params, gradient, gradientModel } = replica;
  const { parts, rowsPerPart, masked, shared } = replica.training;
  const wanted = { into: { gradient }, others: ['loss', ...(masked ? ['count'] : [])] };
  for (let part = barrier.ticket(); part < parts; part = barrier.ticket()) {
    const stepRates = shard.source.at(all.slice(part * rowsPerPart, (part + 1) * rowsPerPart));
    const rows = new ort.Tensor('int32', stepRates.rows);
    const data = { ...shard.frozen, ...stepRates.tensors, rows, params: vector(ort, params) };
    const results = await runInto(ort, gradientModel, data, wanted);
    shared.gradients[part]!.set(gradient);
    shared.losses[part] = floats(results.loss)[0]!;
    if (masked) shared.counts[part] = floats(results.count)[0]!;
  }
}

/** Returns the weight of each part: its share of the counted tokens. */
function sharesOf(counts: Float32Array): Float32Array {
  const total = counts.reduce((sum, count) => sum + count, 0);
  return Float32Array.from(counts, (count) => count / Math.max(1, total));
}

async function combine(
  replica: Replica,
  { index, from, to, gradient }: ReplicaRange,
  shares: Float32Array | undefined,
): Promise<void> {
  let squares = 0;
  for (let at = from; at < to; at += BLOCK) {
    const end = Math.min(at + BLOCK, to);
    squares += await combineRange(replica, at, gradient.subarray(at - from, end - from), shares);
  }
  replica.training.shared.squares[index] = squares;
}

/** Writes the mean of the parts' gradients from `from` on, and returns the sum of its squares. */
async function combineRange(
  { ort, training, combineModel, stack }: Replica,
  from: number,
  gradient: Float32Array,
  shares: Float32Array | undefined,
): Promise<number> {
  const { parts, shared } = training;
  const { length } = gradient;
  for (let part = 0; part < parts; part++) {
    stack.set(shared.gradients[part]!.subarray(from, from + length), part * length);
  }
  const feeds = {
    gradients: new ort.Tensor('float32', stack.subarray(0, parts * length), [parts, length]),
    ...(shares && { shares: new ort.Tensor('float32', shares, [1, parts]) }),
  };
  const results = await runInto(ort, combineModel, feeds, {
    into: { gradient },
    others: ['squares'],
  });
  return floats(results.squares)[0]!;
}

async function update(replica: Replica, range: ReplicaRange, rates: Float32Array): Promise<void> {
  const { ort } = replica;
  const { clipNorm, shared, state } = replica.training;
  const squares = shared.squares.reduce((sum, part) => sum + part, 0);
  const factor = clipNorm > 0 ? clipFactorOf(squares, clipNorm) : 1;
  const feeds: Tensors = {
    gradient: vector(ort, range.gradient),
    rates: vector(ort, rates),
    factor: new ort.Tensor('float32', Float32Array.of(factor), []),
  };
  const into: Record<string, Float32Array> = {};
  state.forEach((name, i) => {
    feeds[name] = vector(ort, range.state[i]!);
    into[`${name}.next`] = range.next[i]!;
  });
  await runInto(ort, range.session, feeds, { into, others: [] });
  [range.state, range.next] = [range.next, range.state];
  shared.state[0]!.set(range.state[0]!, range.from);
}

/** Opens this replica's ranges, dealt out in turn, with one session per distinct model. */
async function openRanges(
  { replica, replicas, state, updates }: ReplicaTraining,
  open: (model: Uint8Array) => Promise<InferenceSession>,
): Promise<readonly ReplicaRange[]> {
  const sessions = new Map<Uint8Array, InferenceSession>();
  const ranges: ReplicaRange[] = [];
  for (let index = replica; index < updates.length; index += replicas) {
    const { from, to, model } = updates[index]!;
    const session = sessions.get(model) ?? (await open(model));
    sessions.set(model, session);
    const vectors = () => state.map(() => new Float32Array(to - from));
    ranges.push({
      index,
      session,
      from,
      to,
      gradient: new Float32Array(to - from),
      state: vectors(),
      next: vectors(),
    });
  }
  return ranges;
}

function loadRange({ from, to, state }: ReplicaRange, shared: readonly Float32Array[]): void {
  state.forEach((values, i) => {
    values.set(shared[i]!.subarray(from, to));
  });
}

function storeRange({ from, state }: ReplicaRange, shared: readonly Float32Array[]): void {
  state.forEach((values, i) => {
    shared[i]!.set(values, from);
  });
}

const ARRIVED = 0;
const GENERATION = 1;
const FAILED = 2;
const TICKET = 3;

export const CONTROL_LENGTH = 4;

/** Interval at which a waiting replica checks whether another one failed, in milliseconds. */
const FAILURE_CHECK_MS = 200;

export interface Barrier {
  /** Blocks until all replicas have arrived. Returns false if one of them failed. */
  meet(): boolean;
  /** Returns the next number from 0, each to one replica only. Restarts at every `meet`. */
  ticket(): number;
  fail(): void;
}

/** Creates one replica's view of the barrier in shared memory. */
const createBarrier = (control: Int32Array<SharedArrayBuffer>, replicas: number): Barrier => ({
  meet: () => {
    const generation = Atomics.load(control, GENERATION);
    if (Atomics.add(control, ARRIVED, 1) + 1 === replicas) {
      Atomics.store(control, ARRIVED, 0);
      Atomics.store(control, TICKET, 0);
      Atomics.add(control, GENERATION, 1);
      Atomics.notify(control, GENERATION);
    }
    while (Atomics.load(control, GENERATION) === generation) {
      if (Atomics.load(control, FAILED) !== 0) return false;
      Atomics.wait(control, GENERATION, generation, FAILURE_CHECK_MS);
    }
    return true;
  },
  ticket: () => Atomics.add(control, TICKET, 1),
  fail: () => {
    Atomics.store(control, FAILED, 1);
    Atomics.notify(control, GENERATION);
  },
});

/** Clears failures and arrivals. Call it only while no replica is running. */
export function resetBarrier(control: Int32Array<SharedArrayBuffer>): void {
  for (const at of [ARRIVED, FAILED, TICKET]) Atomics.store(control, at, 0);
}
