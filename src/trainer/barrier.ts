/** Where replicas wait for each other: four numbers in shared memory, and sleep instead of spinning. */

const ARRIVED = 0;
const GENERATION = 1;
const FAILED = 2;
const TICKET = 3;

export const CONTROL_LENGTH = 4;

/** How long a sleeping replica may miss that another one failed. */
const LOOK_UP_MS = 200;

export interface Barrier {
  /** Blocks until all replicas have arrived; false when one of them failed instead. */
  meet(): boolean;
  /** The next number from 0, each given to one replica only; starts again at every meeting. */
  ticket(): number;
  fail(): void;
}

/** One replica's view of the barrier. */
export const createBarrier = (
  control: Int32Array<SharedArrayBuffer>,
  replicas: number,
): Barrier => ({
  meet: () => {
    const generation = Atomics.load(control, GENERATION);
    if (Atomics.add(control, ARRIVED, 1) + 1 === replicas) {
      Atomics.store(control, ARRIVED, 0);
      Atomics.store(control, TICKET, 0);
      Atomics.add(control, GENERATION, 1);
      Atomics.notify(control, GENERATION);
    }
    while (Atomics.load(control, GENERATION) === generation) {
      if (Atomics.load(control, FAILED) !== 0) return false;
      Atomics.wait(control, GENERATION, generation, LOOK_UP_MS);
    }
    return true;
  },
  ticket: () => Atomics.add(control, TICKET, 1),
  fail: () => {
    Atomics.store(control, FAILED, 1);
    Atomics.notify(control, GENERATION);
  },
});

/** Forgets a failure and whoever was waiting; only while no replica is running. */
export function resetBarrier(control: Int32Array<SharedArrayBuffer>): void {
  for (const at of [ARRIVED, FAILED, TICKET]) Atomics.store(control, at, 0);
}
