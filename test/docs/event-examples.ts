/** One line of `--report ndjson` of every type, as a worker prints it: the examples of docs/reference/json-documents.md. */
import type { RunEvent } from 'nostrain/certified';

const me = 'ba78367e3e451bf8ac7afb204c302ebffa2bcc5c53b8705c79da54d51be79ea8';
const other = '8d12f519905ea26a603d12e5710a00c12813b78c0f3f588597f3bfffac693ac1';
const before = '01cb9b1d05c59d6e5f0ce811a4d9094439da612b9a2cac15ea4e70e534f9c8f8';
const after = '18414e1d2fe6189686c020f92f8f5ec525766cd1eec2b1289c565cef52fcb9e3';
const relay = 'ws://127.0.0.1:7777';

const round = {
  type: 'round',
  index: 2,
  base: before,
  digest: after,
  accepted: [me, other],
  refused: [{ reason: 'wrong-round', worker: other }],
  completionReason: 'strict',
  trainingLoss: 2.31,
  validationLoss: 2.2,
  bitsPerByte: 3.17,
  sample: 'ROMEO:\nWhat is the',
  payloadBytes: 42_006,
  eventBytes: 58_911,
  residualShare: 0.25,
  secondsTraining: 24.8,
  secondsWaiting: 1.2,
  seconds: 26.4,
  certified: {
    ...{ result: 'final', attempt: 0, view: 0, root: after, signers: [me, other], of: 2 },
    rejected: [{ worker: other, reason: 'malformed' }],
    ...{ faults: [], joined: [other], left: [], late: [] },
    ...{ unused: [other], rate: 0.8 },
  },
} as const satisfies RunEvent;

export const eventExamples: readonly RunEvent[] = [
  {
    ...{ type: 'hello', worker: me, run: 'winter', task: 'char-gpt', parameters: 834_048 },
    ...{ device: 'cpu', threads: 4, rounds: 20, round: 0, innerSteps: 25 },
    ...{ digest: before, lossBefore: 4.19 },
    tier: { own: 0, of: 2, width: 512, wholeWidth: 512, share: 1, strategy: 'universal' },
  },
  {
    type: 'notice',
    message: 'training on the built-in play; name another text with --corpus FILE',
  },
  { type: 'waiting', what: 'workers', round: 0, have: 2, want: 3, missing: [] },
  { type: 'peer', worker: other, state: 'training', round: 0, digest: before },
  { type: 'progress', round: 0, step: 10, steps: 25, loss: 3.2, tokensPerSecond: 9_400 },
  { type: 'trained', round: 0, loss: 3.1, tokens: 51_200, seconds: 5.4 },
  { type: 'transfer', way: 'out', round: 0, have: 3, of: 8 },
  {
    ...{ type: 'published', round: 0, payloadBytes: 42_006, eventBytes: 58_911, relays: [relay] },
    failed: [{ relay: 'wss://relay.example.org', message: 'rate-limited: slow down' }],
  },
  { type: 'peer', worker: other, state: 'sent', round: 0, digest: before, eventBytes: 58_911 },
  { type: 'refused', round: 1, worker: other, reason: 'wrong-round', detail: 'it is for round 1' },
  round,
  { type: 'divergence', round: 3, peer: other, ours: before, theirs: after, firstDiffering: other },
  { type: 'stalled', round: 3, attempt: 0, view: 0, missing: [other] },
  { type: 'voids', round: 5, count: 3 },
  { type: 'fault', round: 5, worker: other, kind: 'equivocation' },
  {
    ...{ type: 'screened', round: 5, worker: other, manifest: before },
    ...{ gain: -0.61, bound: -0.0375 },
  },
  { type: 'conflict', round: 5, expected: before, got: after },
  {
    ...{ type: 'fork', round: 9, fork: 7, depth: 2, ours: before, theirs: after },
    obstacle: 'too-deep',
  },
  { type: 'switched', round: 9, fork: 7, depth: 2, ours: before, theirs: after },
  {
    ...{ type: 'done', digest: after, rounds: 20, lossBefore: 4.19, lossAfter: 1.71 },
    ...{ tokens: 1_024_000, bytesSent: 1_180_000, bytesReceived: 3_540_000 },
    ...{ secondsTraining: 496, secondsWaiting: 24, validationLoss: 1.62 },
    bitsPerByte: 2.34,
  },
  {
    ...{ type: 'failed', code: 'relay/none-reachable', message: 'no relay can be reached' },
    hint: 'check the addresses, and that a relay listens there',
  },
];
