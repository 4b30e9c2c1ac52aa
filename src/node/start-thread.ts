/** Starts worker threads, from the TypeScript sources or from `dist`. */
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { type ResourceLimits, Worker } from 'node:worker_threads';

/** Starts `<name>.ts` of this folder in a thread with these limits. From sources, the thread first loads tsx. */
export function startThread(name: string, limits: ResourceLimits = {}): Worker {
  if (!import.meta.url.endsWith('.ts')) {
    return new Worker(new URL(`./${name}.js`, import.meta.url), { resourceLimits: limits });
  }
  // require finds the CommonJS build, which cannot register hooks; the ESM build is in the same folder
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
