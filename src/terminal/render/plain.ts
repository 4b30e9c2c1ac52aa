/** Renders one event as one line, for logs, pipes and other outputs that are not a terminal. */

import { safeLine } from '../../base/errors.ts';
import {
  formatBytes,
  formatCount,
  formatLoss,
  formatRate,
  formatSeconds,
  formatShare,
  plural,
} from '../../base/numbers.ts';
import type { CertifiedRound, RunEvent } from '../../certified/rounds/events.ts';
import { troubleOf } from '../../dashboard/view.ts';
import { roundName } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import type { RoundSummary } from '../../worker/events.ts';

const short = (digest: string): string => digest.slice(0, 8);

const PEER = { training: 'is training', sent: 'has sent its gradient', away: 'is away' } as const;

/** Returns the line without newline; text from others is sanitized. */
export const renderPlain = (name: string, event: RunEvent): string =>
  safeLine(`${name}: ${describe(event)}`);

function describe(event: RunEvent): string {
  switch (event.type) {
    case 'hello': {
      const { worker, run, task, parameters, device, threads, rounds, round, digest } = event;
      const goesOn = round > 0 && round < rounds;
      const start = goesOn ? `, resuming at ${roundName(round)}` : '';
      const on = `${device} (${plural(threads, 'thread')})`;
      return (
        `${shortName(worker)} in run ${run}: ${task}, ${formatCount(parameters)} parameters ` +
        `on ${on}, ${rounds} rounds of ${event.innerSteps} steps${start}; ` +
        `loss ${formatLoss(event.lossBefore)}, state ${short(digest)}`
      );
    }
    case 'notice':
      return event.message;
    case 'waiting': {
      const { what, round, have, want, missing } = event;
      const names = missing.length === 0 ? '' : `, missing ${missing.map(shortName).join(', ')}`;
      const of = want === undefined ? '' : ` of ${want}`;
      return `${roundName(round)}: waiting for ${what}, ${have}${of} here${names}`;
    }
    case 'progress': {
      const { round, step, steps, loss, tokensPerSecond } = event;
      const rate = `${formatRate(tokensPerSecond)}/s`;
      return `${roundName(round)}: step ${step} of ${steps}, loss ${formatLoss(loss)}, ${rate}`;
    }
    case 'trained': {
      const { round, loss, tokens, seconds } = event;
      const time = `${formatSeconds(seconds)} (${formatRate(tokens / seconds)}/s)`;
      return `${roundName(round)}: trained for ${time}, mean loss ${formatLoss(loss)}`;
    }
    case 'transfer': {
      const doing = event.way === 'out' ? 'sending' : 'pulling';
      return `${roundName(event.round)}: ${doing} payloads, ${event.have} of ${event.of} chunks`;
    }
    case 'peer': {
      const { worker, state, round, eventBytes } = event;
      const bytes = eventBytes === undefined ? '' : `, ${formatBytes(eventBytes)}`;
      return `${roundName(round)}: ${shortName(worker)} ${PEER[state]}${bytes}`;
    }
    case 'published': {
      const { round, payloadBytes, eventBytes, relays, failed } = event;
      const lost = failed.map(({ relay, message }) => `; ${relay} ${message}`);
      return (
        `${roundName(round)}: sent ${formatBytes(payloadBytes)} in ${formatBytes(eventBytes)} of ` +
        `events to ${relays.length} of ${relays.length + failed.length} relays${lost.join('')}`
      );
    }
    case 'refused': {
      const from = event.worker === undefined ? '' : ` from ${shortName(event.worker)}`;
      if (event.reason === 'other-roster' && event.worker !== undefined) {
        return (
          `${roundName(event.round)}: ${shortName(event.worker)} trains with a group you are not ` +
          'in: its contribution does not count'
        );
      }
      const what = `an event${from} (${event.reason})`;
      return `${roundName(event.round)}: refused ${what}: ${event.detail}`;
    }
    case 'round':
      return describeRound(event);
    case 'stalled':
    case 'voids':
    case 'fault':
    case 'conflict':
    case 'fork':
    case 'switched':
    case 'screened':
      return troubleOf(event);
    case 'divergence':
    case 'done':
    case 'failed':
      return describeEnd(event);
  }
}

function describeRound(event: Extract<RunEvent, { type: 'round' }>): string {
  const { index, accepted, refused, eventBytes, seconds, digest, certified } = event;
  const validation = event.validationLoss === undefined ? '' : `${describeValidation(event)}, `;
  const sample =
    event.sample === undefined ? '' : `; the shared model writes: ${event.sample.trim()}`;
  const how = certified ? describeCertificate(certified) : event.completionReason;
  const dropped = Math.max(refused.length, certified?.rejected.length ?? 0);
  return (
    `${roundName(index)} done (${how}): ${validation}` +
    `training loss ${formatLoss(event.trainingLoss)}, ${accepted.length} counted, ` +
    `${dropped} refused, ${formatBytes(eventBytes)} per worker, ${formatSeconds(seconds)}, ` +
    `state ${short(digest)}${sample}`
  );
}

/** Formats `validation loss 1.62 (2.34 bits per byte)`. */
function describeValidation({
  validationLoss = Number.NaN,
  bitsPerByte,
  accuracy,
}: Pick<RoundSummary, 'validationLoss' | 'bitsPerByte' | 'accuracy'>): string {
  const perByte = bitsPerByte === undefined ? '' : ` (${formatLoss(bitsPerByte)} bits per byte)`;
  const right = accuracy === undefined ? '' : ` (${formatShare(accuracy)} right)`;
  return `validation loss ${formatLoss(validationLoss)}${perByte}${right}`;
}

/** Formats `final, 5 of 7 signed in view 0, refused 1a2b3c4d (malformed)`. */
function describeCertificate(certified: CertifiedRound): string {
  const { result, attempt, view, signers, of, rejected, faults, joined, left, late } = certified;
  const { unused = [], rate, screened = [] } = certified;
  const recovery = attempt === 0 ? '' : ` of recovery ${attempt}`;
  return [
    `${result}, ${signers.length} of ${of} signed in view ${view}${recovery}`,
    ...late.map((worker) => `${shortName(worker)} counted a round late`),
    ...(unused.length > 0 ? [`the rule excluded ${unused.map(shortName).join(' ')}`] : []),
    ...(rate === undefined ? [] : [`outer rate x ${rate.toFixed(2)}`]),
    ...rejected.map(({ worker, reason }) => `refused ${shortName(worker)} (${reason})`),
    ...screened.map((worker) => `screened ${shortName(worker)}`),
    ...faults.map((worker) => `removed ${shortName(worker)} for its fault`),
    ...joined.map((worker) => `${shortName(worker)} joins`),
    ...left.map((worker) => `${shortName(worker)} leaves`),
  ].join(', ');
}

function describeEnd(event: Extract<RunEvent, { type: 'divergence' | 'done' | 'failed' }>): string {
  if (event.type === 'divergence') {
    const { round, peer, ours, theirs, firstDiffering } = event;
    const first =
      firstDiffering === undefined
        ? ''
        : `; the first worker that only one of you counted is ${shortName(firstDiffering)}`;
    return (
      `DIFFERENT MODELS at the start of ${roundName(round)}: ` +
      `worker ${shortName(peer)} holds ${short(theirs)}, yours is ${short(ours)}${first}`
    );
  }
  if (event.type === 'failed') {
    const { code, message, hint } = event;
    return `FAILED (${code}): ${message}${hint === undefined ? '' : `; ${hint}`}`;
  }
  const { rounds, lossBefore, lossAfter, digest } = event;
  const loss = `${formatLoss(lossBefore)} -> ${formatLoss(lossAfter)}`;
  const validation = event.validationLoss === undefined ? '' : `, ${describeValidation(event)}`;
  return [
    `done after ${rounds} rounds: loss ${loss}${validation}`,
    `trained for ${formatSeconds(event.secondsTraining)}`,
    `waited ${formatSeconds(event.secondsWaiting)}`,
    `sent ${formatBytes(event.bytesSent)}`,
    `received ${formatBytes(event.bytesReceived)}`,
    `state ${short(digest)}`,
  ].join(', ');
}
