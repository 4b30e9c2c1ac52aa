/** Bundles the process that plays worlds: it starts at once and runs faster than from its sources. May plant a bug. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import type { Plant } from './plants.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Returns the path of the program, which is deleted when this process ends. Throws if a file no longer has the text that
 * the plant replaces.
 */
export async function bundle(plant?: Plant): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'nostrain-worlds-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const outfile = join(folder, 'batch.mjs');
  await build({
    entryPoints: [join(root, 'test/worlds/batch.ts')],
    ...{ bundle: true, platform: 'node', format: 'esm', target: 'node20', outfile },
    conditions: ['nostrain:source'],
    plugins: plant ? [packagesOutside, planting(plant)] : [packagesOutside],
    logLevel: 'error',
  });
  return outfile;
}

/** Leaves packages out of the bundle, but not this one. */
const packagesOutside: Plugin = {
  name: 'packages outside',
  setup(bundling) {
    bundling.onResolve({ filter: /^[^./]/ }, ({ path, kind }) =>
      kind === 'entry-point' || path.startsWith('nostrain') ? undefined : { path, external: true },
    );
  },
};

const planting = ({ edits, name }: Plant): Plugin => ({
  name: 'planting',
  setup(bundling) {
    bundling.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const wanted = edits.filter(({ file }) => file === relative(root, path));
      if (wanted.length === 0) return undefined;
      let contents = readFileSync(path, 'utf8');
      for (const { file, from, to } of wanted) {
        const [before, after, ...more] = contents.split(from);
        if (after === undefined || more.length > 0) {
          throw new Error(`${name}: ${file} has to have this text once: ${from}`);
        }
        contents = `${before}${to}${after}`;
      }
      return { contents, loader: 'ts' };
    });
  },
});
