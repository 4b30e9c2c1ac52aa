/** The packed tarball in a folder of its own, installed by npm from its registry and nothing else. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { DemoDocument } from '../../demos/shared/document.ts';
import { itWith, type Missing } from '../support/needs.ts';
import { temporaryFolder } from '../support/processes.ts';
import { tutorialPrograms } from '../support/tutorial.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const fromRoot = createRequire(join(root, 'package.json'));
const app = temporaryFolder();
const installed = join(app, 'node_modules', 'nostrain');

const registry = process.env.npm_config_registry ?? 'https://registry.npmjs.org/';
const isReachable = await fetch(registry, { signal: AbortSignal.timeout(5000) }).then(
  () => true,
  () => false,
);
const registryMissing: Missing = isReachable ? undefined : `${registry} cannot be reached`;

/** What a stranger has who never heard of our settings. */
const plain = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/onnxruntime|^npm_(config|package)_/i.test(name)),
);

beforeAll(async () => {
  // the build of the tests emits none
  await run(
    process.execPath,
    [
      ...[fromRoot.resolve('typescript/bin/tsc'), '-p', 'tsconfig.build.json'],
      ...[
        '--emitDeclarationOnly',
        '--noCheck',
        '--incremental',
        'false',
        '--tsBuildInfoFile',
        'null',
      ],
    ],
    { cwd: root },
  );
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts'], {
    cwd: root,
    env: { ...process.env, npm_config_pack_destination: app },
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  const tarball = join(app, filename);
  await writeFile(join(app, 'package.json'), '{ "type": "module" }');
  if (isReachable) {
    const quiet = ['--no-audit', '--no-fund', '--prefer-offline'];
    await run('npm', ['install', tarball, ...quiet], { cwd: app, env: plain });
  } else {
    await mkdir(installed, { recursive: true });
    await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
    const { bin, dependencies } = await manifestAt(installed);
    for (const name of Object.keys(dependencies)) await link(name);
    const commands = join(app, 'node_modules', '.bin');
    await mkdir(commands);
    await symlink(join(installed, bin.nostrain), join(commands, 'nostrain'));
  }
  await link('@types/node');
}, 600_000);

const manifestAt = async (folder: string) =>
  JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));

/** As if it had been installed as well. */
async function link(name: string): Promise<void> {
  const at = join(app, 'node_modules', name);
  await mkdir(dirname(at), { recursive: true });
  await symlink(join(root, 'node_modules', name), at);
}

/** Every package that lies in the folder, however deep. */
async function packagesIn(modules: string): Promise<string[]> {
  const names = (await readdir(modules)).filter((name) => !name.startsWith('.'));
  const folders = await Promise.all(
    names.map(async (name) => {
      const at = join(modules, name);
      if (name.startsWith('@')) return packagesIn(at);
      const inner = join(at, 'node_modules');
      return [at, ...(existsSync(inner) ? await packagesIn(inner) : [])];
    }),
  );
  return folders.flat();
}

const nostrain = async (...args: readonly string[]) => {
  const { bin } = await manifestAt(installed);
  const program = join(installed, bin.nostrain);
  return run(process.execPath, [program, ...args], { cwd: app, env: plain });
};

describe('the packed tarball', () => {
  itWith(registryMissing)(
    'installs from the npm registry alone: nothing that it brings runs a script',
    async () => {
      const folders = await packagesIn(join(app, 'node_modules'));
      const brought = folders.filter((folder) => !folder.endsWith('@types/node'));
      expect(brought.length).toBeGreaterThan(10);
      const manifests = await Promise.all(brought.map(manifestAt));
      const scripted = manifests.filter(({ scripts = {} }) =>
        ['preinstall', 'install', 'postinstall'].some((name) => name in scripts),
      );
      expect(scripted.map(({ name }) => name)).toEqual([]);
    },
  );

  it('brings the run page, which needs no engine', async () => {
    const site = join(app, 'site');
    await nostrain('page', '--out', site);
    const files = (await readdir(site)).sort();
    expect(files).toEqual(['index.html', 'job.js', 'page.js', 'style.css']);
  });

  it('works without the engine, and says how to get it where it is needed', {
    timeout: 240_000,
  }, async () => {
    expect((await nostrain('--help')).stdout).toContain('run-training');
    const dir = join(app, 'no-engine');
    const failed: { code: number; stdout: string; stderr: string } = await nostrain(
      'demo',
      'linear',
      '--dir',
      dir,
    ).then(
      () => Promise.reject(new Error('it trained')),
      (error) => error,
    );
    expect(failed.code).toBe(1);
    const { peerDependencies } = await manifestAt(installed);
    const wanted = `onnxruntime-node@${peerDependencies['onnxruntime-node']}`;
    expect(failed.stdout + failed.stderr).toContain(`npm install ${wanted} --ignore-scripts`);
    // from here on it is there
    await link('onnxruntime-node');
  });

  it('trains a model of the reader’s own', { timeout: 120_000 }, async () => {
    const example = join(app, 'own-model.ts');
    await cp(join(root, 'demos/own-model/run.ts'), example);
    const tsx = pathToFileURL(fromRoot.resolve('tsx')).href;
    const { stdout } = await run(process.execPath, ['--import', tsx, example], { cwd: app });
    expect(stdout).toContain('both have the same bits');
  });

  it('is a program: npx nostrain demo in an empty folder', { timeout: 240_000 }, async () => {
    const corpus = join(app, 'text.txt');
    await writeFile(corpus, 'to be or not to be, that is the question\n'.repeat(400));
    const quick = ['--quick', '--rounds', '1', '--inner-steps', '2', '--json'];
    const home = { ...plain, NOSTRAIN_HOME: join(app, 'home') };
    const { stdout } = await run(
      'npx',
      ['--no-install', 'nostrain', 'demo', ...quick, '--corpus', corpus],
      { cwd: app, env: home },
    );
    const document: DemoDocument = JSON.parse(stdout);
    expect(document.agreed).toBe(true);
  });

  it('runs the programs of the tutorial, as it says', { timeout: 240_000 }, async () => {
    await link('tsx');
    for (const { i, code, output } of tutorialPrograms) {
      await writeFile(join(app, `program-${i}.ts`), code);
      const argv = ['--no-install', 'tsx', `program-${i}.ts`];
      const { stdout } = await run('npx', argv, { cwd: app, env: plain });
      expect(stdout).toBe(output);
    }
  });

  it('passes a strict consumer’s type check', { timeout: 120_000 }, async () => {
    await cp(join(root, 'demos/own-model/run.ts'), join(app, 'consumer.ts'));
    const compilerOptions = {
      ...{ module: 'NodeNext', target: 'ES2023', strict: true, noEmit: true },
      ...{ lib: ['ES2023', 'DOM'], types: ['node'], exactOptionalPropertyTypes: true },
      skipLibCheck: false,
    };
    const config = join(app, 'tsconfig.json');
    await writeFile(config, JSON.stringify({ compilerOptions, files: ['consumer.ts'] }));
    const tsc = fromRoot.resolve('typescript/bin/tsc');
    const checked = await run(process.execPath, [tsc, '-p', config], { cwd: app }).catch(
      (error: { stdout: string }) => error,
    );
    expect(checked.stdout).toBe('');
  });
});
