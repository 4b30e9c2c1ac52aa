/** Methods of the API that take part in rounds: contributions, proposals, votes and challenges. */
import { chunk } from '../../../../kinds/chunk.ts';
import { manifest } from '../../../../kinds/manifest.ts';
import { proposal } from '../../../../kinds/proposal.ts';
import { vote } from '../../../../kinds/vote.ts';
import type { ConfigError } from '../../../base/errors.ts';
import { stakesOf, withEntropy } from '../../../certified/decisions/chain.ts';
import {
  assignmentOf,
  judgeManifest,
  judgeSubmission,
  type RoundParameters,
} from '../../../certified/decisions/contributions.ts';
import { gather } from '../../../certified/history/gather.ts';
import type { OpenRun } from '../../../dashboard/follow-run.ts';
import { layoutOfRun } from '../../../model/from-settings.ts';
import type { SignedEvent } from '../../../network/event.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { key, whole } from '../../../run/field.ts';
import { roundName } from '../../../run/ids.ts';
import { signDocument } from '../../shared/signed-document.ts';
import { publishEvent } from '../../shared/with-relays.ts';
import {
  type Api,
  assertEvent,
  type FollowedRun,
  historyOptions,
  refusal,
  throwRefusal,
} from './context.ts';
import {
  eventErrors,
  eventParam,
  eventsParam,
  method,
  optional,
  param,
  runParam,
} from './method.ts';

/** Rounds of the API are indices, as in events: the first is 0. */
const roundParam = param('integer', 'index of the round, from 0', whole());

function notReady(what: string): ConfigError {
  const hint = 'try again when getRun shows the committee of the round';
  return refusal('run/not-ready', `${what} of the current round is not known yet`, hint);
}

/** Returns what contributions to the current round are checked against. Throws `run/not-ready` or `run/complete`. */
function parametersOf({ tip, gathered, spec, picture }: OpenRun): RoundParameters {
  if (picture.open === undefined) {
    const hint = 'getReceipt lists what each key contributed';
    throw refusal('run/complete', `the run is over after ${tip.round} rounds`, hint);
  }
  const ready = withEntropy(tip, gathered);
  if (!ready.ok) throw notReady('the randomness');
  const stakes = stakesOf(tip.ledger, gathered);
  if (!stakes.ok) throw notReady('the stake table');
  const layout = layoutOfRun(spec);
  return { ...ready.value, base: tip.modelRoot, layout, stakes: stakes.value };
}

/** Reads events of other programs into messages and payloads of the run. */
const messagesOf = ({ run, spec }: OpenRun, events: readonly SignedEvent[]) =>
  gather(events, { run, spec }, { crypto: nativeCrypto });

const chunksOf = (what: string) =>
  eventsParam(`chunks (kind ${chunk.kind}) of ${what} that is not in the event`);

/** Publishes events in order, so that a reader of the last one finds the others, and adds them to the followed run. */
async function publishIn(
  open: OpenRun,
  events: readonly SignedEvent[],
  what: string,
  api: Api,
): Promise<void> {
  for (const each of events) {
    await publishEvent(each, what, api);
    open.take(each);
  }
}

export const submitOuterGradient = method({
  name: 'submitOuterGradient',
  verb: 'submit-gradient',
  summary: 'check the contribution of a trainer to the current round, and publish it',
  params: {
    run: runParam,
    event: eventParam(`contribution (kind ${manifest.kind}), signed by the trainer`),
    chunks: optional(chunksOf('a payload')),
  },
  result: { id: 'string', round: 'integer', trainer: 'string' },
  errors: [...eventErrors, 'run/not-ready', 'run/complete'],
  cost: 100,
  async run(api, { run, event, chunks = [] }) {
    assertEvent(event, manifest.kind);
    for (const each of chunks) assertEvent(each, chunk.kind);
    const { open } = await api.runs.get(run);
    const read = messagesOf(open, [event, ...chunks]);
    const message = read.message(event.id);
    if (message?.type !== 'manifest') {
      const reason = message ? 'malformed' : 'other-run';
      throwRefusal({ reason, detail: `it is no contribution to run ${open.run}` });
    }
    const parameters = parametersOf(open);
    const claim = judgeManifest(message.manifest, parameters, assignmentOf(parameters));
    if (!claim.ok) throwRefusal(claim.rejection);
    const payload = read.payload(claim.value);
    if (payload === undefined) {
      throwRefusal({ reason: 'payload-missing', detail: 'chunks of its payload are missing' });
    }
    const judged = judgeSubmission(claim.value, payload, parameters, nativeSha256);
    if (!judged.ok) throwRefusal(judged.rejection);
    await publishIn(open, [...chunks, event], 'contribution', api);
    return { id: event.id, round: claim.value.round, trainer: event.pubkey };
  },
});

/** Returns the outcome of a decided round, or the open round. Throws `round/InvalidRound` for a later one. */
function roundIn({ picture }: OpenRun, round: number) {
  const { rounds, open: current } = picture;
  const closed = rounds.find((each) => each.round === round);
  const open = current?.round === round ? current : undefined;
  if (closed !== undefined || open !== undefined) return { closed, open };
  const now = current === undefined ? 'the run is over' : `${roundName(current.round)} is open`;
  const data = { round, current: current?.round };
  const hint = 'getRun has the current round';
  throw refusal('round/InvalidRound', `${now}, not ${roundName(round)}`, hint, data);
}

/**
 * Reads the vote or proposal of a committee member. Throws `event/Refused` if it is not one of this run, and
 * `round/NotInCommittee` if its author has no seat in the open round.
 */
function ballotIn(
  { open: followed }: FollowedRun,
  [event, ...chunks]: readonly [SignedEvent, ...(readonly SignedEvent[])],
  kind: number,
) {
  assertEvent(event, kind);
  for (const each of chunks) assertEvent(each, chunk.kind);
  const worker = event.pubkey;
  const message = messagesOf(followed, [event, ...chunks]).message(event.id);
  if (message?.type !== 'vote' && message?.type !== 'proposal') {
    const detail = 'it is malformed, of another run, or without its outcome';
    throwRefusal({ reason: message ? 'malformed' : 'other-run', detail });
  }
  const { closed, open } = roundIn(followed, message.round);
  if (open?.committee.length === 0) throw notReady('the committee');
  if (open?.committee.includes(worker) === false) {
    const words = `its author has no seat in ${roundName(message.round)}`;
    const data = { round: message.round, key: worker };
    throw refusal('round/NotInCommittee', words, 'getRun lists the committee', data);
  }
  return { message, closed, open };
}

export const finalizeRound = method({
  name: 'finalizeRound',
  summary: 'publish the vote of a committee member for the outcome of a round',
  params: {
    run: runParam,
    event: eventParam(`vote (kind ${vote.kind}), signed by the member`),
  },
  result: { status: 'string', round: 'integer', outcome: 'string', quorum: 'integer' },
  errors: [
    ...eventErrors,
    'round/InvalidRound',
    'round/ConflictingFinalize',
    'round/NotInCommittee',
    'run/not-ready',
  ],
  cost: 100,
  async run(api, { run, event }) {
    const followed = await api.runs.get(run);
    const { message, closed, open } = ballotIn(followed, [event], vote.kind);
    const { round, digest } = message;
    if (closed === undefined) {
      await publishIn(followed.open, [event], 'vote', api);
      return { status: 'wait', round, outcome: digest, quorum: open?.quorum };
    }
    if (closed.outcome === digest)
      return { status: 'closed', round, outcome: digest, quorum: closed.quorum };
    const words = `${roundName(round)} ended with outcome ${closed.outcome}, not ${digest}`;
    const data = { round, expected: closed.outcome, got: digest };
    throw refusal('round/ConflictingFinalize', words, 'follow the certified outcome', data);
  },
});

export const decideRound = method({
  name: 'decideRound',
  summary: 'tell whether a round may be decided by now; with an event, publish that proposal',
  params: {
    run: runParam,
    round: roundParam,
    event: optional(eventParam(`proposal (kind ${proposal.kind}), signed by the proposer`)),
    chunks: optional(chunksOf('an outcome')),
  },
  result: { round: 'integer', decision: 'string', remainingMs: 'integer', outcome: 'string' },
  errors: [...eventErrors, 'round/InvalidRound', 'round/NotInCommittee', 'run/not-ready'],
  cost: 100,
  async run(api, { run, round, event, chunks = [] }) {
    const followed = await api.runs.get(run);
    if (event !== undefined) {
      const { message, open } = ballotIn(followed, [event, ...chunks], proposal.kind);
      if (message.round !== round) {
        throwRefusal({ reason: 'wrong-round', detail: `it is of ${roundName(message.round)}` });
      }
      if (open !== undefined) await publishIn(followed.open, [...chunks, event], 'proposal', api);
    }
    const { closed, open } = roundIn(followed.open, round);
    if (open === undefined) return { round, decision: 'closed', outcome: closed!.outcome };
    const { sent, roster, since } = open;
    // nothing precedes the first round: its grace begins with the first contribution
    const start = since > 0 ? since : (sent[0]?.at ?? Number.POSITIVE_INFINITY);
    const { graceMaxMs } = followed.open.spec.timing;
    const leftMs = Math.min(graceMaxMs, 1000 * start + graceMaxMs - api.clock.now());
    const remainingMs = Math.max(0, leftMs);
    if (sent.length === roster.length) return { round, decision: 'finalize', remainingMs: 0 };
    if (remainingMs > 0) return { round, decision: 'wait', remainingMs };
    return { round, decision: sent.length > 0 ? 'finalize' : 'no-quorum', remainingMs };
  },
});

/** Servers that recompute steps at this moment: one at a time, because it takes all cores. */
const busy = new WeakSet<Api>();

export const challengeCommitment = method({
  name: 'challengeCommitment',
  summary: 'recompute the inner steps of a contribution, and publish the signed verdict',
  params: {
    run: runParam,
    round: roundParam,
    trainer: param('string', 'author of the contribution', key()),
  },
  result: { run: 'string', bandPpm: 'integer', checks: 'array' },
  errors: ['run/no-rerun', 'challenge/nothing', 'challenge/busy'],
  cost: 2000,
  async run(api, { run, round, trainer: worker }) {
    if (busy.has(api)) {
      const hint = 'try again when that call has returned';
      throw refusal('challenge/busy', 'another contribution is being recomputed', hint);
    }
    busy.add(api);
    try {
      const { open } = await api.runs.get(run);
      // the engine is loaded only where it is used
      const { challengeRun } = await import('../challenge.ts');
      const { document } = await challengeRun(
        await open.archive(),
        { ...api.files, round, worker },
        {
          options: historyOptions(api, open),
          reach: api.reach,
          sign: async (name, verdict) => {
            const event = signDocument(api.signer, name, verdict);
            await publishEvent(event, 'verdict', api);
            return event;
          },
        },
      );
      return document;
    } finally {
      busy.delete(api);
    }
  },
});
