/**
 * Builds the documentation site: npm run site. Installs VitePress and TypeDoc from a lockfile of its own when they are
 * needed for the first time; afterwards needs no network. `.bench/site/html` has the site, which any web server can serve.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { allPages } from '../docs/pages.ts';
import { installTools } from '../support/install-tools.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const tools = installTools(join(root, 'test/site'), 'site');
const pages = join(tools, 'pages');
rmSync(pages, { recursive: true, force: true });

/** Name of a page in the site: a README is the index of its folder. */
const nameOf = (page: string): string => page.replace(/README\.md$/, 'index.md');

/** Returns the text with links between pages by their names in the site; links to other files become plain text. */
const linked = (page: string, text: string): string =>
  text
    .replace(/^<!--.*?-->$/gms, '')
    .replace(/(!?)\[((?:[^\][]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g, (whole, image, label, target) => {
      const [path, heading] = String(target).split('#');
      if (/^[a-z]+:/.test(target) || !path || image) return whole;
      const file = join(dirname(page), path);
      if (!allPages.includes(file)) return existsSync(join(root, file)) ? label : whole;
      const to = relative(dirname(page), nameOf(file));
      return `[${label}](${to}${heading ? `#${heading}` : ''})`;
    });

for (const page of allPages) {
  const to = join(pages, nameOf(page));
  mkdirSync(dirname(to), { recursive: true });
  writeFileSync(to, linked(page, readFileSync(join(root, page), 'utf8')));
}
cpSync(join(root, 'docs/assets'), join(pages, 'docs/assets'), { recursive: true });
mkdirSync(join(tools, '.vitepress'), { recursive: true });
copyFileSync(join(root, 'test/site/config.mjs'), join(tools, '.vitepress/config.mjs'));
/** Runs a tool in the repository; the process fails if one of them does. */
function run(tool: string, ...args: readonly string[]): void {
  const path = join(tools, 'node_modules', tool);
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: root, stdio: 'inherit' });
  process.exitCode ||= status ?? 1;
}
run('vitepress/bin/vitepress.js', 'build', tools);
run('typedoc/bin/typedoc', '--logLevel', 'Warn', '--out', join(tools, 'html/api'));
process.stdout.write(`${join(tools, 'html')}/index.html\n`);
