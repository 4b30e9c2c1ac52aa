/**
 * Builds the program before tests that start it, if a source is newer than the last build. It emits the JavaScript that
 * `npm run build` emits, without checking types and without declarations, in a third of the time.
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

const root = fileURLToPath(new URL('../..', import.meta.url));
const sources = [
  'src',
  'kinds',
  'relay',
  'bundle.ts',
  'tsconfig.json',
  'tsconfig.build.json',
  'package.json',
];
const bundles = ['dist/browser', 'dist/page'].map((folder) => join(root, folder));
const stamp = join(root, 'dist/.built');
const lock = join(root, 'node_modules/.nostrain-build-lock');

/** Returns the latest change of a file, or of a folder and everything in it. A folder changes when a name is added or removed. */
function newest(path: string): number {
  const { mtimeMs } = statSync(path);
  if (!statSync(path).isDirectory()) return mtimeMs;
  return Math.max(mtimeMs, ...readdirSync(path).map((name) => newest(join(path, name))));
}

const isCurrent = () =>
  existsSync(stamp) &&
  Math.max(...sources.map((path) => newest(join(root, path)))) < statSync(stamp).mtimeMs;

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

function build(): void {
  const startedAt = new Date();
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  if (existsSync(join(root, 'dist'))) removeOrphans(join(root, 'dist'));
  const quick = [
    '--noCheck',
    '--declaration',
    'false',
    '--incremental',
    'false',
    '--tsBuildInfoFile',
    'null',
  ];
  for (const step of [
    [tsc, '-p', 'tsconfig.build.json', ...quick],
    ['--import', 'tsx', 'bundle.ts'],
  ]) {
    execFileSync(process.execPath, step, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  }
  writeFileSync(stamp, '');
  // what changed meanwhile is newer than this build
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
async function locked(work: () => void): Promise<void> {
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
    work();
  } finally {
    rmSync(lock, { recursive: true, force: true });
  }
}

const ageOf = (path: string) => (existsSync(path) ? Date.now() - statSync(path).mtimeMs : 0);

/** Vitest calls this once, before the first file of a suite that starts the program. */
export async function setup(): Promise<void> {
  await locked(() => {
    if (!isCurrent()) build();
  });
}
