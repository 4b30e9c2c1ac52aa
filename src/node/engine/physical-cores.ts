/** How many threads to compute with: physical cores, since a second thread per core only adds waiting. */
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Physical cores this process may use; where the system does not say, the logical ones. */
export function physicalCores(): number {
  const available = availableParallelism();
  try {
    const cores = new Set<string>();
    for (const block of readFileSync('/proc/cpuinfo', 'utf8').split('\n\n')) {
      const core = /^core id\s*:\s*(\d+)/m.exec(block);
      const socket = /^physical id\s*:\s*(\d+)/m.exec(block);
      if (core && socket) cores.add(`${socket[1]}.${core[1]}`);
    }
    return cores.size === 0 ? available : Math.min(available, cores.size);
  } catch {
    return available; // not Linux
  }
}
