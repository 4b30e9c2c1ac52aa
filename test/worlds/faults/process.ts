/**
 * Workers that die, at any moment or between two writes to disk, or come late; machines that sleep, or share a key.
 */
import { drawMoment, drawSeconds, type Fault, numberOf } from './fault.ts';

/** Dies at once, or with its next write: before the file changes, or right after. */
const moments = ['now', 'before-write', 'after-write'] as const;

export const killed: Fault = {
  name: 'killed',
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    at: drawMoment(draws, world),
    moment: draws.pick(moments),
    /** Writes that still succeed. */
    writes: draws.whole(0, 6),
    awaySeconds: drawSeconds(draws, 1, 60),
  }),
  begin(parameters, stage) {
    const [worker, away] = [numberOf(parameters, 'worker'), numberOf(parameters, 'awaySeconds')];
    const { moment } = parameters;
    stage.after(numberOf(parameters, 'at'), () => {
      if (moment === 'now') stage.kill(worker, away);
      else {
        const isDone = moment === 'after-write';
        stage.disk(worker).onWrite(numberOf(parameters, 'writes'), isDone, () => {
          stage.kill(worker, away);
        });
      }
    });
  },
  // a process writes at least once in a round
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'awaySeconds') + 60,
};

export const comesLate: Fault = {
  name: 'comes-late',
  isCertified: true,
  draw: (draws, world) =>
    world.faults.filter(({ fault }) => fault === 'comes-late').length < (world.workers - 1) / 3
      ? { worker: draws.whole(0, world.workers - 1), at: drawMoment(draws, world) }
      : undefined,
  begin: (parameters, stage) =>
    stage.comesLate(numberOf(parameters, 'worker'), numberOf(parameters, 'at')),
  endSeconds: (parameters) => numberOf(parameters, 'at'),
};

/** The machine stands still, and its connections are gone when it wakes. */
export const sleeps: Fault = {
  name: 'sleeps',
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 5, 120),
  }),
  begin(parameters, stage) {
    const [sleeper, from] = [numberOf(parameters, 'worker'), numberOf(parameters, 'at')];
    const to = from + numberOf(parameters, 'seconds');
    stage.after(from, () => stage.suspend(sleeper, to));
    stage.sever(from, to, (worker) => worker === sleeper);
  },
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};

/** A second machine starts with the same key and an empty disk while the first one works. */
export const keyShared: Fault = {
  name: 'key-shared',
  isCertified: true,
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    at: drawMoment(draws, world),
  }),
  begin(parameters, stage) {
    const worker = numberOf(parameters, 'worker');
    stage.after(numberOf(parameters, 'at'), () => stage.startTwin(worker));
  },
  endSeconds: (parameters) => numberOf(parameters, 'at'),
  spoils: (parameters) => [numberOf(parameters, 'worker')],
};
