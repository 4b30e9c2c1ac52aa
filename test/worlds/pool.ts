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
      if (child && played % WORLDS_PER_PROCESS === 0) child.disconnect();
      if (played++ % WORLDS_PER_PROCESS === 0) child = fork(program, { execArgv });
      goesOn = onReport(await playIn(child!, next.value)) && goesOn;
    }
    child?.disconnect();
  };
  await Promise.all(Array.from({ length: jobs }, lane));
}

function playIn(child: ChildProcess, world: World): Promise<Report> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) =>
      reject(new Error(`the process that played world ${world.seed} ended with ${code}`));
    child.once('exit', onExit);
    child.once('message', (report) => {
      child.off('exit', onExit);
      resolve(report as Report);
    });
    child.send(world);
  });
}
