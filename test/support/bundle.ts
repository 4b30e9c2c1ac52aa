/** A module with everything it imports, as one script for browsers and engines without modules. */
import { build } from 'esbuild';

/** What the module exports is in the global `entry`. */
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
