/** The packed tarball, unpacked beside its dependencies: it holds the program, the run page and types for browsers. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from '../support/processes.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const app = temporaryFolder();
const installed = join(app, 'node_modules', 'nostrain');

interface Manifest {
  readonly bin: { readonly nostrain: string };
  readonly dependencies: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
}
let manifest: Manifest;

beforeAll(async () => {
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts'], {
    cwd: root,
    env: { ...process.env, npm_config_pack_destination: app },
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await mkdir(installed, { recursive: true });
  await run('tar', ['-xzf', join(app, filename), '-C', installed, '--strip-components=1']);
  manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  for (const name of Object.keys(manifest.dependencies)) {
    await mkdir(join(app, 'node_modules', name, '..'), { recursive: true });
    await symlink(join(root, 'node_modules', name), join(app, 'node_modules', name));
  }
});

it('npm pack holds the program and the run page, and neither needs the engine', async () => {
  const nostrain = (...args: readonly string[]) =>
    run(process.execPath, [join(installed, manifest.bin.nostrain), ...args], { cwd: app });
  expect((await nostrain('--help')).stdout).toContain('run-training');
  await nostrain('page', '--out', join(app, 'site'));
  const files = (await readdir(join(app, 'site'))).sort();
  expect(files).toEqual(['index.html', 'job.js', 'page.js', 'style.css']);
});

/** Returns what a strict compiler for browsers, without types of Node.js, says about a program that imports these. */
async function errorsIn(file: string, entries: readonly string[]): Promise<string> {
  const imports = entries.map((entry, i) => `import * as e${i} from '${entry}';\n`).join('');
  const names = entries.map((_, i) => `e${i}`).join(', ');
  await writeFile(join(app, file), `${imports}export const all = [${names}];\n`);
  const compilerOptions = {
    ...{ module: 'NodeNext', target: 'ES2023', strict: true, noEmit: true },
    ...{ lib: ['ES2023', 'DOM'], types: [], exactOptionalPropertyTypes: true, skipLibCheck: false },
  };
  const config = join(app, `${file}.json`);
  await writeFile(config, JSON.stringify({ compilerOptions, files: [file] }));
  return run(process.execPath, [tsc, '-p', config], { cwd: app }).then(
    ({ stdout }) => stdout,
    ({ stdout }: { stdout: string }) => stdout,
  );
}

it('the types of browser entry points compile without @types/node', async () => {
  await writeFile(join(app, 'package.json'), '{ "type": "module" }');
  // the build of the tests emits no declarations
  const emit = ['--emitDeclarationOnly', '--noCheck', '--outDir', join(installed, 'dist')];
  const whole = ['--incremental', 'false', '--tsBuildInfoFile', 'null'];
  await run(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...emit, ...whole], { cwd: root });
  const entries = Object.keys(manifest.exports).map((entry) => `nostrain${entry.slice(1)}`);
  const ofNode = entries.filter((entry) => /\/(?:node|relay)\b/.test(entry));
  const others = entries.filter((entry) => !ofNode.includes(entry));
  expect(others.length).toBeGreaterThan(10);
  expect(await errorsIn('browser.ts', others)).toBe('');
  // the same compiler finds what is missing
  expect(await errorsIn('node.ts', ofNode)).toContain("Cannot find namespace 'NodeJS'");
}, 180_000);
