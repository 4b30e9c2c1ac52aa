/**
 * Workers that die, at any moment or between two writes to disk, or come late; machines that sleep, or share a key.
 */
import { runIdOf } from 'nostrain/run';
import { leaving } from '../attacks.ts';
import type { WriteMoment } from '../disk.ts';
import { specOf } from '../spec.ts';
import type { World } from '../world.ts';
import { drawMoment, drawSeconds, type Fault, numberOf } from './fault.ts';

/** Dies at once, or at a moment of one of its next writes. */
const moments = ['now', 'before-write', 'torn-write', 'after-write'] as const;

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
        stage.disk(worker).onWrite(numberOf(parameters, 'writes'), moment as WriteMoment, () => {
          stage.kill(worker, away);
        });
      }
    });
  },
  // a process writes at least once in a round
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'awaySeconds') + 60,
};

/** Reports whether more than a third of the workers would come late or leave. */
const areFew = ({ workers, faults }: World): boolean =>
  faults.filter(({ fault }) => fault === 'comes-late' || fault === 'leaves').length >=
  (workers - 1) / 3;

export const comesLate: Fault = {
  name: 'comes-late',
  isCertified: true,
  draw: (draws, world) =>
    areFew(world)
      ? undefined
      : { worker: draws.whole(0, world.workers - 1), at: drawMoment(draws, world) },
  begin: (parameters, stage) =>
    stage.comesLate(numberOf(parameters, 'worker'), numberOf(parameters, 'at')),
  endSeconds: (parameters) => numberOf(parameters, 'at'),
};

/** Leaves the run; it has finished then. */
export const leaves: Fault = {
  ...comesLate,
  name: 'leaves',
  begin(parameters, stage) {
    let isDue = false;
    stage.after(numberOf(parameters, 'at'), () => {
      isDue = true;
    });
    stage.setAttack(
      numberOf(parameters, 'worker'),
      leaving(runIdOf(specOf(stage.world)), () => isDue),
    );
  },
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
