/** Bundles what runs in a browser into `dist`: the run page and the page of a worker, each a folder of files. */
import { copyFile, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const source = (file: string): string => fileURLToPath(new URL(file, import.meta.url));

/** The build of the GGUF parser for browsers; its `exports` name only the one for Node.js. */
const ggufInBrowser = (): string =>
  join(dirname(createRequire(import.meta.url).resolve('@huggingface/gguf')), 'browser/index.mjs');

/** Scripts as modules, small, each with all it imports. */
export async function bundleScripts(
  entries: Readonly<Record<string, string>>,
  folder: string,
): Promise<void> {
  await build({
    entryPoints: Object.fromEntries(
      Object.entries(entries).map(([name, file]) => [name, source(file)]),
    ),
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    conditions: ['nostrain:source', 'onnxruntime-web-use-extern-wasm'],
    alias: { '@huggingface/gguf': ggufInBrowser() },
    legalComments: 'none',
    logLevel: 'warning',
  });
}

/** The run page. */
export async function bundlePage(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await bundleScripts({ page: './src/page/main.ts', job: './src/page/job.ts' }, folder);
  for (const file of ['index.html', 'style.css']) {
    await copyFile(source(`./src/page/${file}`), join(folder, file));
  }
}

/** A worker in a tab; onnxruntime's WebAssembly is served beside it. */
export async function bundleTab(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await bundleScripts(
    {
      tab: './src/browser/page/tab.ts',
      'tab-worker': './src/browser/tab-worker.ts',
      'trainer-wasm': './src/browser/trainer-wasm.ts',
      'trainer-webgpu': './src/browser/trainer-webgpu.ts',
    },
    folder,
  );
  await copyFile(source('./src/browser/page/tab.html'), join(folder, 'tab.html'));
}
