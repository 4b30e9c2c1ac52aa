/** Bundles a module and its imports into one script, for browsers and for engines without modules. */
import { build } from 'esbuild';

/** Returns the script; it puts the exports of the module into the global `entry`. */
export async function bundleForBrowser(entryFile: URL): Promise<string> {
  const bundle = await build({
    entryPoints: [entryFile.pathname],
    bundle: true,
    write: false,
    format: 'iife',
    globalName: 'entry',
    platform: 'browser',
    conditions: ['nostrain:source'],
    logLevel: 'silent',
  });
  return bundle.outputFiles[0]!.text;
}
