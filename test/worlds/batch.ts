/** A process that plays the worlds that its parent sends, one after the other. */
import { setMaxListeners } from 'node:events';
import { worldGoodput } from './goodput.ts';
import { playWorld, type Violation } from './play.ts';
import type { World } from './world.ts';

/** Result of a world, as the process sends it to its parent. */
export interface Report {
  readonly world: World;
  readonly violations: readonly Violation[];
  readonly traceHash: string;
  readonly notes: readonly string[];
  /** Seconds on the clock of the world. */
  readonly seconds: number;
  /** Contributions counted in an hour of that clock. */
  readonly goodput: number;
  /** Seconds of the processor. */
  readonly cpuSeconds: number;
}

export async function reportOn(world: World): Promise<Report> {
  const before = process.cpuUsage();
  const { chronicle, ...played } = await playWorld(world);
  const { user, system } = process.cpuUsage(before);
  return { ...played, goodput: worldGoodput(chronicle), cpuSeconds: (user + system) / 1e6 };
}

// workers wait for many things with one signal each
setMaxListeners(0);
process.on('message', (world: World) => {
  void reportOn(world).then((report) => process.send?.(report));
});
