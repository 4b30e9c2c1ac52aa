/**
 * Builds `dist`. `npm run build` checks types and writes declarations. `npm start` and the tests only emit JavaScript,
 * and only if a source is newer than the last build.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { bundlePage, bundleTab } from './bundle.ts';

const root = fileURLToPath(new URL('.', import.meta.url));
const rooms = ['src', 'kinds', 'relay', 'demos'];
const sources = [
  ...rooms,
  'build.ts',
  'bundle.ts',
  'tsconfig.json',
  'tsconfig.build.json',
  'package.json',
].map((path) => join(root, path));
const bundles = ['dist/browser', 'dist/page'].map((folder) => join(root, folder));
const stamp = join(root, 'dist/.built');
const lock = join(root, 'node_modules/.nostrain-build-lock');

/** Returns the latest change of a file, or of a folder and everything in it. A folder changes when a name is added or removed. */
function newest(path: string): number {
  const entry = statSync(path);
  const { mtimeMs } = entry;
  if (!entry.isDirectory()) return mtimeMs;
  return Math.max(mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))));
}

/** Reports whether a stamp is missing or older than one of these files and folders. */
export const isStale = (stampFile: string, paths: readonly string[]): boolean =>
  !existsSync(stampFile) || Math.max(...paths.map(newest)) >= statSync(stampFile).mtimeMs;

/** Removes outputs whose sources are gone: they would still be packed and imported. */
function removeOrphans(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    const source = join(root, relative(join(root, 'dist'), path));
    // bundles have no source of the same name
    if (bundles.includes(path)) continue;
    if (entry.isDirectory() && existsSync(source)) removeOrphans(path);
    else if (!existsSync(source.replace(/\.(js|d\.ts)$/, '.ts'))) {
      if (!entry.name.startsWith('.')) rmSync(path, { recursive: true });
    }
  }
}

/** Emits JavaScript from every TypeScript file as `tsc` would, in a tenth of the time; imports of `.ts` become `.js`. */
async function emit(): Promise<void> {
  await build({
    entryPoints: rooms.flatMap(filesIn),
    absWorkingDir: root,
    outdir: join(root, 'dist'),
    outbase: root,
    // with `bundle`, the plugin sees each import; it leaves all of them as imports
    bundle: true,
    plugins: [keepImports],
    treeShaking: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
  });
}

const keepImports: Plugin = {
  name: 'keep-imports',
  setup({ onResolve }) {
    onResolve({ filter: /./ }, ({ kind, path }) =>
      kind === 'entry-point'
        ? undefined
        : { path: path.startsWith('.') ? path.replace(/\.ts$/, '.js') : path, external: true },
    );
  },
};

/** Pages are bundled, not emitted. */
const pages = ['src/page', 'src/browser/page'].map((folder) => join(root, folder));

function filesIn(folder: string): readonly string[] {
  const path = join(root, folder);
  if (pages.includes(path)) return [];
  return readdirSync(path, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) return filesIn(join(folder, entry.name));
    return entry.name.endsWith('.ts') ? [join(path, entry.name)] : [];
  });
}

/** Checks types and emits JavaScript with declarations. */
function compile(): void {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const stdio = ['ignore', 'inherit', 'inherit'] as const;
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: [...stdio],
  });
}

async function buildAll(emitAll: () => void | Promise<void>): Promise<void> {
  const startedAt = new Date();
  if (existsSync(join(root, 'dist'))) removeOrphans(join(root, 'dist'));
  await emitAll();
  await bundlePage(join(root, 'dist/page'));
  await bundleTab(join(root, 'dist/browser'));
  writeFileSync(stamp, '');
  // a source that changed during the build is newer than this build
  utimesSync(stamp, startedAt, startedAt);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Does the work while no other process does. A lock whose process is gone is taken over. */
async function locked(work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      mkdirSync(lock);
      break;
    } catch {
      const pid = join(lock, 'pid');
      const holder = existsSync(pid) ? Number(readFileSync(pid, 'utf8')) : undefined;
      const isAbandoned = holder ? !isAlive(holder) : ageOf(lock) > 10_000;
      if (isAbandoned) rmSync(lock, { recursive: true, force: true });
      else await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
  writeFileSync(join(lock, 'pid'), String(process.pid));
  try {
    await work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

const ageOf = (path: string) => (existsSync(path) ? Date.now() - statSync(path).mtimeMs : 0);

/** Builds JavaScript if a source is newer than the last build. Vitest calls it before the first test of a suite. */
export const setup = (): Promise<void> => buildIfStale();

async function buildIfStale(say?: (line: string) => void): Promise<void> {
  await locked(async () => {
    if (!isStale(stamp, sources)) return;
    say?.('building dist: it is missing or older than the sources');
    await buildAll(emit);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--if-stale'))
    await buildIfStale((line) => void process.stderr.write(`${line}\n`));
  else await locked(() => buildAll(compile));
}
