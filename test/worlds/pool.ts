/** Plays many worlds in several processes. */
import { type ChildProcess, fork } from 'node:child_process';
import type { Report } from './batch.ts';
import type { World } from './world.ts';

/** Worlds per process; then a new one replaces it, so that leftovers of ended worlds do not slow later ones. */
const WORLDS_PER_PROCESS = 500;
const execArgv = ['--max-semi-space-size=64'];

export interface Playing {
  /** Processes at a time. */
  readonly jobs: number;
  /** The program that each runs: a bundle. */
  readonly program: string;
  /** Called in the order in which worlds end. Playing stops once it returns false. */
  onReport(report: Report): boolean;
}

/** Plays worlds until none is left. */
export async function playAll(
  worlds: Iterable<World>,
  { jobs, program, onReport }: Playing,
): Promise<void> {
  let goesOn = true;
  const queue = worlds[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    let child: ChildProcess | undefined;
    let played = 0;
    for (let next = queue.next(); goesOn && !next.done; next = queue.next()) {
      if (!child?.connected || played % WORLDS_PER_PROCESS === 0) {
        if (child?.connected) child.disconnect();
        child = fork(program, { execArgv });
      }
      played++;
      goesOn = onReport(await playIn(child, next.value)) && goesOn;
    }
    if (child?.connected) child.disconnect();
  };
  await Promise.all(Array.from({ length: jobs }, lane));
}

/** Returns the report of the process; if it dies, one that says so. */
function playIn(child: ChildProcess, world: World): Promise<Report> {
  return new Promise((resolve) => {
    const onExit = (code: number | null, signal: string | null) => {
      const violation = {
        invariant: 'the process lives',
        message: `it ends with ${code ?? signal}`,
      };
      resolve({
        ...{ world, violations: [violation], traceHash: '', notes: [] },
        ...{ seconds: 0, goodput: 0, cpuSeconds: 0 },
      });
    };
    child.once('exit', onExit);
    child.once('message', (report) => {
      child.off('exit', onExit);
      resolve(report as Report);
    });
    child.send(world);
  });
}
