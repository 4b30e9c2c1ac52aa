/** Threads of this program, started from its sources or from `dist`. */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type ResourceLimits, Worker } from 'node:worker_threads';

/** Runs `<name>.ts` of this folder within these limits; from sources the thread loads tsx before its first import. */
export function startThread(name: string, limits: ResourceLimits = {}): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL(`./${name}.js`, import.meta.url), { resourceLimits: limits });
  }
  // require finds the CommonJS build, which cannot register hooks; its module twin lies beside it
  const api = createRequire(import.meta.url)
    .resolve('tsx/esm/api')
    .replace(/cjs$/, 'mjs');
  const tsx = pathToFileURL(api).href;
  const thread = new URL(`./${name}.ts`, import.meta.url).href;
  const code = `import(${JSON.stringify(tsx)}).then(({ register }) => {
    register();
    return import(${JSON.stringify(thread)});
  });`;
  const execArgv = ['--conditions=nostrain:source'];
  return new Worker(code, { eval: true, execArgv, resourceLimits: limits });
}
