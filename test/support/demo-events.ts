/** The events of a synthetic run of two workers and two rounds. */
import type { RunEvent } from 'nostrain/certified';

export type NamedRunEvent = readonly [name: string, event: RunEvent];

export const alice = 'a1'.repeat(32);
export const bob = 'b2'.repeat(32);
export const digestOf = (round: number): string => `d${round}`.repeat(32);

export const hello = (worker: string): RunEvent => ({
  type: 'hello',
  worker,
  run: 'test',
  task: 'char-gpt',
  parameters: 834_048,
  device: 'cpu',
  threads: 1,
  rounds: 2,
  round: 0,
  innerSteps: 100,
  digest: digestOf(0),
  lossBefore: 4.56,
});

export const progress = (round: number, step: number, loss: number): RunEvent => ({
  type: 'progress',
  round,
  step,
  steps: 100,
  loss,
  tokensPerSecond: 19_321,
});

type Round = Extract<RunEvent, { type: 'round' }>;

export const round = (index: number, change: Partial<Round> = {}): Round => ({
  type: 'round',
  index,
  base: digestOf(index),
  digest: digestOf(index + 1),
  accepted: [alice, bob],
  refused: [],
  completionReason: 'strict',
  trainingLoss: 3.5 - index,
  payloadBytes: 300_000,
  eventBytes: 401_234,
  residualShare: 0.1,
  secondsTraining: 20,
  secondsWaiting: 2,
  seconds: 22.4,
  ...change,
});

export const done: RunEvent = {
  type: 'done',
  digest: digestOf(2),
  rounds: 2,
  lossBefore: 4.56,
  lossAfter: 2.5,
  tokens: 819_200,
  bytesSent: 812_345,
  bytesReceived: 1_612_345,
  secondsTraining: 40,
  secondsWaiting: 4.04,
  validationLoss: 2.61,
};

/** One worker's round: progress, sending, collecting. */
const played = (name: string, index: number): readonly NamedRunEvent[] => [
  [name, progress(index, 50, 3.6 - index)],
  [name, progress(index, 100, 3.4 - index)],
  [name, { type: 'trained', round: index, loss: 3.5 - index, tokens: 409_600, seconds: 20 }],
  [
    name,
    {
      type: 'published',
      round: index,
      payloadBytes: 300_000,
      eventBytes: 401_234,
      relays: ['ws://127.0.0.1:7447'],
      failed: [],
    },
  ],
];

export const wholeRun: readonly NamedRunEvent[] = [
  ['alice', hello(alice)],
  ['bob', hello(bob)],
  ...played('alice', 0),
  ...played('bob', 0),
  ['alice', round(0, { validationLoss: 3.21, sample: 'KING:\nThe ship is salt,\nand so am I.' })],
  ['bob', round(0)],
  ...played('bob', 1),
  ...played('alice', 1),
  ['bob', round(1, { trainingLoss: 2.3 })],
  ['alice', round(1, { validationLoss: 2.61, sample: 'QUEEN:\nWhat crown is this?' })],
  ['alice', done],
  ['bob', done],
];
