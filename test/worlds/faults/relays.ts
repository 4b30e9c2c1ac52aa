/** Relays that are away for a while, lose everything, or lie. */
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
  draw: (draws, world) => ({
    relay: draws.whole(0, world.relays - 1),
    at: drawMoment(draws, world),
  }),
  begin: (parameters, stage) =>
    stage.after(numberOf(parameters, 'at'), () => stage.forget(numberOf(parameters, 'relay'))),
  endSeconds: (parameters) => numberOf(parameters, 'at'),
};

/** Forged and misdated twins before events; half of what is heard is withheld, three in ten published events are lost. */
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
