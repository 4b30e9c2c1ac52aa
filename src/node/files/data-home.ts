/** The data folder of this machine: runs, cached corpora, demos. */
import { homedir, platform } from 'node:os';
import { join } from 'node:path';

/** Returns `NOSTRAIN_HOME`, or the platform's folder for application data. */
export function dataHome(env: NodeJS.ProcessEnv = process.env): string {
  if (env.NOSTRAIN_HOME) return env.NOSTRAIN_HOME;
  if (env.XDG_DATA_HOME) return join(env.XDG_DATA_HOME, 'nostrain');
  if (platform() === 'darwin') return join(homedir(), 'Library', 'Application Support', 'nostrain');
  if (platform() === 'win32') return join(env.LOCALAPPDATA ?? homedir(), 'nostrain');
  return join(homedir(), '.local', 'share', 'nostrain');
}
