import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

function filesUnder(folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(ending))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

const sources = ['src', 'kinds', 'relay'].flatMap((folder) => filesUnder(folder, '.ts'));
const read = (file: string) => readFileSync(join(root, file), 'utf8');

/** Folders whose files are variants of one thing each, or the top of a command: they may be as small as they like. */
const VARIANTS = [
  /^kinds\//,
  /^src\/(cli|python)\/commands\//,
  /^src\/model\/(architectures|optimizers|graph\/ops|forms|imported\/operators)\//,
  /^src\/certified\/features\//,
  /^src\/consensus\/aggregate\//,
  /^src\/network\/codec\//,
  /^src\/python\/regression\//,
];

/** Small files with one importer that stand alone all the same, and why. */
const STANDS_ALONE: Readonly<Record<string, string>> = {
  'relay/authenticating.ts': 'one verb of the relay, like adding and querying',
  'relay/info.ts': 'NIP-11, beside the server that speaks it',
  'relay/signature.ts': 'the one place that loads compiled code',
  'src/chain/registry/slashing-registry.ts': 'written by src/chain/contracts/compile.mjs',
  'src/chain/registry/stake-registry.ts': 'written by src/chain/contracts/compile.mjs',
  'src/cli/shared/imported-model.ts': 'loaded only if a command line names an .onnx file',
  'src/consensus/round/fork-choice.ts': 'a rule of the protocol, pure and tested alone',
  'src/network/wire/packer.ts': 'from a byte budget to a codec, tested alone',
  'src/network/transport/relay-urls.ts': 'which relays a key publishes to, pure and tested alone',
  'src/network/wire/worker-relays.ts': 'NIP-65, exported by the package',
  'src/network/codec/viterbi-wasm.ts': 'written by assemble.ts',
  'src/node/files/run-folder.ts': 'the format of one file on disk',
  'src/python/node/protocol.ts': 'how the Python profile is played on a machine',
  'src/page/address.ts': 'what links to the page say, pure',
  'src/worker/apply-round.ts': 'the sync rules, pure and tested alone',
};

describe('the house', () => {
  it('folds a small file with one importer into it, unless it is a variant', () => {
    const importers = new Map<string, Set<string>>();
    for (const file of sources) {
      for (const [, target] of read(file).matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)) {
        const path = join(file, '..', target!);
        importers.set(path, (importers.get(path) ?? new Set()).add(file));
      }
    }
    const small = sources.filter(
      (file) => read(file).split('\n').length - 1 < 45 && importers.get(file)?.size === 1,
    );
    const unexplained = small.filter(
      (file) => !(file in STANDS_ALONE) && !VARIANTS.some((folder) => folder.test(file)),
    );
    expect(unexplained).toEqual([]);
  });

  it('starts every file with what it is for', () => {
    const silent = sources.filter((file) => {
      const text = read(file).replace(/^#!.*\n/, '');
      return !text.startsWith('/**');
    });
    expect(silent).toEqual([]);
  });

  it('counts rounds from 1 in whatever a person reads: messages never hold the index', () => {
    // rounds of drand are another matter; these two speak in the numbers of the Python reference, as its flags do
    const allowed = new Set([
      'src/chain/drand-source.ts',
      'src/consensus/committee/beacon.ts',
      'src/python/commands/collect.ts',
      'src/python/commands/reports.ts',
      'src/run/ids.ts',
    ]);
    const raw = sources.filter(
      (file) =>
        !allowed.has(file) && /\bround \$\{(?!.*roundNumber)|[Rr]ound \+ 1\}/.test(read(file)),
    );
    expect(raw).toEqual([]);
  });

  it('draws no randomness that nobody can repeat', () => {
    const allowed = new Set(['src/network/transport/relay-set.ts']);
    const random = sources.filter(
      (file) => !allowed.has(file) && read(file).includes('Math.random'),
    );
    expect(random).toEqual([]);
  });

  it('keeps functions that engines may round differently out of consensus', () => {
    const inexact = /Math\.(log|exp|pow|tanh|sin|cos|cbrt|hypot)/;
    expect(filesUnder('src/consensus', '.ts').filter((file) => inexact.test(read(file)))).toEqual(
      [],
    );
  });

  it('writes to the terminal in one place, which makes harmless what came from outside', () => {
    const ways = new Set(['src/terminal/output.ts', 'src/terminal/reporter.ts']);
    const raw = /process\s*\.\s*std(out|err)\s*\.\s*write|\bstream\.write\(|console\.\w+\(/;
    expect(sources.filter((file) => !ways.has(file) && raw.test(read(file)))).toEqual([]);
  });

  it('skips no test without saying why', () => {
    const quiet = filesUnder('test', '.ts').filter(
      (file) =>
        !['test/support/needs.ts', 'test/house.test.ts'].includes(file) &&
        /\b(it|test|describe)\.(skip|skipIf|runIf|only|todo)\b|\bctx\.skip\(/.test(read(file)),
    );
    expect(quiet).toEqual([]);
  });

  it('says each statement once, and holds it by tests', () => {
    const code = /\b[CENRT]-\d\d\b/g;
    const codesIn = (files: readonly string[]) =>
      [...new Set(files.flatMap((file) => read(file).match(code) ?? []))].sort();
    const page = 'docs/statements.md';
    expect(codesIn(filesUnder('test', '.ts'))).toEqual(codesIn([page]));
    const others = ['README.md', ...filesUnder('docs', '.md'), ...filesUnder('demos', '.ts')];
    expect(codesIn([...sources, ...others].filter((file) => file !== page))).toEqual([]);
  });

  it('names no machine and no download address', () => {
    expect(read('package-lock.json')).not.toContain('"resolved": "http');
  });

  it.each(['src/index.ts', 'src/python/index.ts'])('bundles %s for a browser', async (entry) => {
    const result = await build({
      entryPoints: [join(root, entry)],
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
      logLevel: 'silent',
    });
    expect(result.errors).toEqual([]);
    expect(result.outputFiles[0]!.text).not.toMatch(/from ["']node:/);
  });
});
