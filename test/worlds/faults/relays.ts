/** Relays that are away for a while, lose everything, lie, are slow, or cut frames off. */
import { vote as voteKind } from 'nostrain/kinds';
import type { SignedEvent } from 'nostrain/network';
import { forgedFrom } from '../attacks.ts';
import {
  type Alteration,
  drawMoment,
  drawSeconds,
  type Fault,
  type FaultCase,
  numberOf,
  type RelayFaults,
  type Stage,
} from './fault.ts';

export const relayDies: Fault = {
  name: 'relay-dies',
  draw: (draws, world) => ({
    relay: draws.whole(0, world.relays - 1),
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 1, 90),
  }),
  begin(parameters, stage) {
    const from = numberOf(parameters, 'at');
    const dead = numberOf(parameters, 'relay');
    stage.sever(from, from + numberOf(parameters, 'seconds'), (_, relay) => relay === dead);
  },
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};

export const relayForgets: Fault = {
  name: 'relay-forgets',
  isCertified: true,
  draw: (draws, world) => ({
    relay: draws.whole(0, world.relays - 1),
    at: drawMoment(draws, world),
  }),
  begin: (parameters, stage) =>
    stage.after(numberOf(parameters, 'at'), () => stage.forget(numberOf(parameters, 'relay'))),
  endSeconds: (parameters) => numberOf(parameters, 'at'),
};

/** Precedes events with forged and misdated copies, withholds half of the events, loses three in ten published ones. */
const LIES = {
  ...{ forge: 1, postdate: 0.5, drop: 0.5, discard: 0.3 },
  ...{ falseEose: 0.5, noEose: 0.5 },
} as const;

/** Gives a relay these faults for the seconds of the case. */
function misbehave(parameters: FaultCase, stage: Stage, settings: RelayFaults): void {
  const [relay, at] = [numberOf(parameters, 'relay'), numberOf(parameters, 'at')];
  const none = Object.fromEntries(Object.keys(settings).map((name) => [name, undefined]));
  stage.after(at, () => stage.setRelay(relay, settings));
  stage.after(at + numberOf(parameters, 'seconds'), () => stage.setRelay(relay, none));
}

export const relayLies: Fault = {
  name: 'relay-lies',
  // another relay has to tell the truth
  draw: (draws, world) =>
    world.relays < 2 || world.faults.some(({ fault }) => fault === 'relay-lies')
      ? undefined
      : {
          relay: draws.whole(0, world.relays - 1),
          at: drawMoment(draws, world),
          seconds: drawSeconds(draws, 5, 60),
        },
  begin: (parameters, stage) => misbehave(parameters, stage, LIES),
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};

/** Creates a fault that one relay has for some time, in which nothing is lost for good. */
const passing = (
  name: string,
  strength: readonly [least: number, most: number],
  harm: Fault['begin'],
): Fault => ({
  name,
  draw: (draws, world) => ({
    relay: draws.whole(0, world.relays - 1),
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 5, 60),
    strength: draws.between(...strength),
  }),
  begin: harm,
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
});

/** Each frame takes up to some seconds longer. */
export const relayIsSlow = passing('relay-is-slow', [0.5, 8], (parameters, stage) => {
  const [relay, at] = [numberOf(parameters, 'relay'), numberOf(parameters, 'at')];
  stage.after(at, () => stage.slowDown(relay, 1000 * numberOf(parameters, 'strength')));
  stage.after(at + numberOf(parameters, 'seconds'), () => stage.slowDown(relay, 0));
});

const altering = (
  name: string,
  strength: readonly [least: number, most: number],
  change: Alteration,
): Fault =>
  passing(name, strength, (parameters, stage) => {
    const [relay, at] = [numberOf(parameters, 'relay'), numberOf(parameters, 'at')];
    const share = numberOf(parameters, 'strength');
    stage.alter(relay, at, at + numberOf(parameters, 'seconds'), (text, draws) =>
      draws.chance(share) ? change(text, draws) : text,
    );
  });

/** A share of the frames to workers ends in the middle. */
export const relayTruncates = altering('relay-truncates', [0.05, 0.6], (text, draws) =>
  text.slice(0, draws.whole(0, text.length)),
);

/** Puts other votes in the place of members' votes: the ids are right, the signatures are those of the true ones. */
export const relayForges = altering('relay-forges', [0.1, 0.6], (text) => {
  const frame = JSON.parse(text) as readonly unknown[];
  const [type, subscription, event] = frame as [string, string, SignedEvent];
  if (type !== 'EVENT' || event.kind !== voteKind.kind) return text;
  return JSON.stringify([type, subscription, forgedFrom(event)]);
});

const misbehaving = (
  name: string,
  strength: readonly [least: number, most: number],
  settingsOf: (strength: number) => RelayFaults,
): Fault =>
  passing(name, strength, (parameters, stage) =>
    misbehave(parameters, stage, settingsOf(numberOf(parameters, 'strength'))),
  );

export const relayReorders = misbehaving('relay-reorders', [0.1, 0.8], (share) => ({
  ...{ reorder: share, reorderMs: 5000, duplicate: share / 2, oks: true },
}));

/** Takes so many events a minute of each connection. */
export const relayThrottles = misbehaving('relay-throttles', [2, 20], (rate) => ({
  throttle: Math.round(rate),
}));

const demandsWork = misbehaving('relay-demands-work', [2, 8], (bits) => ({
  work: Math.round(bits),
}));

export const relayDemandsWork: Fault = {
  ...demandsWork,
  // large updates get no work: another relay has to take them
  draw: (draws, world) =>
    world.relays < 2 || world.faults.some(({ fault }) => fault === 'relay-demands-work')
      ? undefined
      : demandsWork.draw(draws, world),
};

/** Does not answer a share of the events. */
export const relaySwallows = misbehaving('relay-swallows', [0.1, 0.7], (swallow) => ({ swallow }));

export const relayHangsUp = misbehaving('relay-hangs-up', [0.02, 0.3], (disconnect) => ({
  disconnect,
}));

export const relayClosesReqs = misbehaving('relay-closes-reqs', [0.2, 1], (closeReqs) => ({
  closeReqs,
}));

export const relayIsSilent = misbehaving('relay-is-silent', [0, 1], () => ({ silent: true }));

/** Bytes a second of each connection. */
export const relayIsThin = misbehaving('relay-is-thin', [500, 20_000], (bandwidth) => ({
  bandwidth,
}));

/** Deletes each event that it takes, some seconds later. */
export const relayDeletes: Fault = {
  ...misbehaving('relay-deletes', [5, 60], (forgetAfter) => ({ forgetAfter })),
  isCertified: true,
  endSeconds: (parameters) =>
    ['at', 'seconds', 'strength'].reduce((sum, name) => sum + numberOf(parameters, name), 0),
};
