/** The packed tarball in a folder of its own, as somebody who installed it has it; its dependencies are links to ours. */
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { DemoDocument } from '../../src/cli/commands/demo/document.ts';
import { temporaryFolder } from '../support/processes.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const fromRoot = createRequire(join(root, 'package.json'));
const app = temporaryFolder();
const installed = join(app, 'node_modules', 'nostrain');

beforeAll(async () => {
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts'], {
    cwd: root,
    env: { ...process.env, npm_config_pack_destination: app },
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await mkdir(installed, { recursive: true });
  const tarball = join(app, filename);
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  const { dependencies } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
  for (const name of [...Object.keys(dependencies), '@types/node']) await link(name);
  await writeFile(join(app, 'package.json'), '{ "type": "module" }');
});

/** As npm would have put it there. */
async function link(name: string): Promise<void> {
  const at = join(app, 'node_modules', name);
  await mkdir(dirname(at), { recursive: true });
  await symlink(join(root, 'node_modules', name), at);
}

describe('the packed tarball', () => {
  it('trains a model of the reader’s own', { timeout: 120_000 }, async () => {
    const example = join(app, 'own-model.ts');
    await cp(join(root, 'demos/own-model/run.ts'), example);
    const tsx = pathToFileURL(fromRoot.resolve('tsx')).href;
    const { stdout } = await run(process.execPath, ['--import', tsx, example], { cwd: app });
    expect(stdout).toContain('both hold the same bits');
  });

  it('is a program: nostrain demo linear', { timeout: 120_000 }, async () => {
    const { bin } = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'));
    const dir = join(app, 'demo');
    const { stdout } = await run(
      process.execPath,
      [join(installed, bin.nostrain), 'demo', 'linear', '--json', '--dir', dir],
      { cwd: app },
    );
    const document: DemoDocument = JSON.parse(stdout);
    expect(document.agreed).toBe(true);
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
