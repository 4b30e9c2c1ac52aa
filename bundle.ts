/** Bundles what runs in browsers into dist/browser, for `npm run build`: each page with its scripts, without onnxruntime's WebAssembly. */
import { copyFile, mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const out = path('dist/browser');

await mkdir(out, { recursive: true });
await build({
  entryPoints: [
    'src/browser/page/tab.ts',
    'src/browser/tab-worker.ts',
    'src/browser/trainer-wasm.ts',
    'src/browser/trainer-webgpu.ts',
  ].map(path),
  outdir: out,
  entryNames: '[name]',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  platform: 'browser',
  conditions: ['nostrain:source', 'onnxruntime-web-use-extern-wasm'],
  logLevel: 'warning',
});
await copyFile(path('src/browser/page/tab.html'), path('dist/browser/tab.html'));
