/** Disks that are lost, restored from an old copy, or full. */
import { drawMoment, drawSeconds, type Fault, type FaultCase, numberOf } from './fault.ts';

const endSeconds = (parameters: FaultCase): number =>
  numberOf(parameters, 'at') + numberOf(parameters, 'awaySeconds');

/** Faults after which relays may not have what a worker signed. Without its disk it cannot know of that. */
const losing: readonly string[] = [
  ...['relay-forgets', 'relay-deletes', 'relay-lies', 'relay-truncates', 'relay-swallows'],
  'one-way',
];

export const diskLost: Fault = {
  name: 'disk-lost',
  isCertified: true,
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    at: drawMoment(draws, world),
    awaySeconds: drawSeconds(draws, 1, 60),
    /** Writes that still succeed; -1 loses the disk at once. */
    writes: draws.whole(-1, 6),
  }),
  begin(parameters, stage) {
    const worker = numberOf(parameters, 'worker');
    const disk = stage.disk(worker);
    const lose = () => {
      stage.kill(worker, numberOf(parameters, 'awaySeconds'));
      disk.lose();
    };
    const writes = numberOf(parameters, 'writes');
    stage.after(numberOf(parameters, 'at'), () => {
      // what was saved before has been sent by then: between two votes of a round the others may wait for this worker
      if (writes < 0) lose();
      else disk.onWrite(writes, 'before-write', lose);
    });
  },
  // a process writes at least once in a round
  endSeconds: (parameters) => endSeconds(parameters) + 60,
  spoils: (parameters, all) =>
    all.some(({ fault }) => losing.includes(fault)) ? [numberOf(parameters, 'worker')] : [],
};

export const backupRestored: Fault = {
  name: 'backup-restored',
  isCertified: true,
  draw(draws, world) {
    const copied = drawMoment(draws, world);
    return {
      worker: draws.whole(0, world.workers - 1),
      copied,
      at: copied + drawSeconds(draws, 1, 60),
      awaySeconds: drawSeconds(draws, 1, 60),
    };
  },
  begin(parameters, stage) {
    const worker = numberOf(parameters, 'worker');
    const disk = stage.disk(worker);
    let copy = disk.files;
    stage.after(numberOf(parameters, 'copied'), () => {
      copy = disk.files;
    });
    stage.after(numberOf(parameters, 'at'), () => {
      stage.kill(worker, numberOf(parameters, 'awaySeconds'));
      disk.files = copy;
    });
  },
  endSeconds,
  spoils: (parameters) => [numberOf(parameters, 'worker')],
};

export const diskFull: Fault = {
  name: 'disk-full',
  draw: (draws, world) => ({
    worker: draws.whole(0, world.workers - 1),
    at: drawMoment(draws, world),
    seconds: drawSeconds(draws, 5, 60),
  }),
  begin(parameters, stage) {
    const disk = stage.disk(numberOf(parameters, 'worker'));
    const at = numberOf(parameters, 'at');
    stage.after(at, () => disk.fill(true));
    stage.after(at + numberOf(parameters, 'seconds'), () => disk.fill(false));
  },
  endSeconds: (parameters) => numberOf(parameters, 'at') + numberOf(parameters, 'seconds'),
};
