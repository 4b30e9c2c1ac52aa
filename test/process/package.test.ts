/** The packed tarball, unpacked beside its dependencies: it holds the program and the run page. */
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../support/processes.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

it('npm pack holds the program and the run page, and neither needs the engine', async () => {
  const app = temporaryFolder();
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts'], {
    cwd: root,
    env: { ...process.env, npm_config_pack_destination: app },
  });
  const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
  await run('tar', ['-xzf', join(app, filename), '-C', app]);
  const { bin, dependencies } = JSON.parse(
    await readFile(join(app, 'package', 'package.json'), 'utf8'),
  );
  for (const name of Object.keys(dependencies)) {
    await mkdir(join(app, 'node_modules', name, '..'), { recursive: true });
    await symlink(join(root, 'node_modules', name), join(app, 'node_modules', name));
  }
  const nostrain = (...args: readonly string[]) =>
    run(process.execPath, [join(app, 'package', bin.nostrain), ...args], { cwd: app });
  expect((await nostrain('--help')).stdout).toContain('run-training');
  await nostrain('page', '--out', join(app, 'site'));
  const files = (await readdir(join(app, 'site'))).sort();
  expect(files).toEqual(['index.html', 'job.js', 'page.js', 'style.css']);
});
