/** The data folder of this machine: runs, cached corpora, demos. */
import { homedir, platform } from 'node:os';
import { join, relative, sep } from 'node:path';

/** Returns `NOSTRAIN_HOME`, or the platform's folder for application data. */
export function dataHome(env: NodeJS.ProcessEnv = process.env): string {
  if (env.NOSTRAIN_HOME) return env.NOSTRAIN_HOME;
  if (env.XDG_DATA_HOME) return join(env.XDG_DATA_HOME, 'nostrain');
  if (platform() === 'darwin') return join(homedir(), 'Library', 'Application Support', 'nostrain');
  if (platform() === 'win32') return join(env.LOCALAPPDATA ?? homedir(), 'nostrain');
  return join(homedir(), '.local', 'share', 'nostrain');
}

/**
 * Returns a short name for a worker's folder, which commands accept: `winter` for a run in the data folder, `demos/gpt`
 * for the first worker of a demo in it, else the shorter path.
 */
export function localName(folder: string, home = dataHome()): string {
  const [kind, name, ...rest] = relative(home, folder).split(sep);
  if (kind === 'runs' && name !== undefined && rest.length === 0) return name;
  if (kind === 'demos' && name !== undefined && rest.length === 1) return `demos/${name}`;
  const path = relative(process.cwd(), folder);
  return path === '' || path.startsWith('..') ? folder : path;
}
