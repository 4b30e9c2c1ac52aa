/** Installs tools with a lockfile of their own into `.bench`, when a script needs them; `npm ci` does not. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Returns the folder of the installed tools that `manifests` lists. Throws an Error if npm fails. */
export function installTools(manifests: string, name: string): string {
  const tools = fileURLToPath(new URL(`../../.bench/${name}`, import.meta.url));
  const lock = readFileSync(join(manifests, 'package-lock.json'), 'utf8');
  const installed = join(tools, 'package-lock.json');
  if (existsSync(join(tools, 'node_modules')) && readFileSync(installed, 'utf8') === lock)
    return tools;
  mkdirSync(tools, { recursive: true });
  for (const file of ['package.json', 'package-lock.json'])
    copyFileSync(join(manifests, file), join(tools, file));
  // peers, such as vitest and typescript, are those of this repository
  const flags = [
    '--legacy-peer-deps',
    '--ignore-scripts',
    '--prefer-offline',
    '--fetch-retries=1',
    '--fetch-retry-mintimeout=1000',
  ];
  const { status } = spawnSync('npm', ['ci', ...flags], { cwd: tools, stdio: 'inherit' });
  if (status === 0) return tools;
  throw new Error(
    `npm installed no tools in ${tools}: run this once with the internet or a registry mirror ` +
      '(npm_config_registry=URL); later runs need neither',
  );
}
