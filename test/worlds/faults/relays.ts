/** Relays that are away for a while, lose everything, lie, are slow, or cut frames off. */
import { drawMoment, drawSeconds, type Fault, numberOf } from './fault.ts';

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

const TRUTH = Object.fromEntries(Object.keys(LIES).map((name) => [name, 0]));

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
  begin(parameters, stage) {
    const [relay, at] = [numberOf(parameters, 'relay'), numberOf(parameters, 'at')];
    stage.after(at, () => stage.setRelay(relay, LIES));
    stage.after(at + numberOf(parameters, 'seconds'), () => stage.setRelay(relay, TRUTH));
  },
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

/** A share of the frames to workers ends in the middle. */
export const relayTruncates = passing('relay-truncates', [0.05, 0.6], (parameters, stage) => {
  const [relay, at] = [numberOf(parameters, 'relay'), numberOf(parameters, 'at')];
  stage.after(at, () => stage.truncate(relay, numberOf(parameters, 'strength')));
  stage.after(at + numberOf(parameters, 'seconds'), () => stage.truncate(relay, 0));
});
