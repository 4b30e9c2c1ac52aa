/** The rooms of the house, top row first: each room imports only rooms in rows above its own (docs/architecture.md). */
const rows = [
  ['base'],
  ['tensor'],
  ['attest', 'sealed'],
  ['run'],
  ['model', 'consensus', 'network'],
  ['worker', 'pretrained'],
  ['formats'],
  ['certified', 'friends', 'merging', 'python', 'probe', 'trainer'],
  ['node', 'chain', 'dashboard', 'social'],
  ['terminal', 'page', 'browser'],
  ['cli'],
];
const dir = (names) => `^src/(${names.join('|')})/`;
/** Rooms that run in a browser; the Python product keeps its own edges in two folders. */
const pure = [...rows.slice(0, 7).flat(), 'social', 'browser'];
const pythonEdges = '^src/python/(node|commands)/';
const layers = rows.flatMap((row, i) =>
  row.map((name) => ({
    name: `src/${name} imports only rows above it`,
    severity: 'error',
    from: { path: dir([name]), ...(name === 'python' && { pathNot: pythonEdges }) },
    to: {
      path: dir([...row.filter((other) => other !== name), ...rows.slice(i + 1).flat(), 'NONE']),
    },
  })),
);
const never = (name, from, to) => ({ name, severity: 'error', from, to });
const entries = ['', '[a-z]+/', 'python/node/'].map((room) => `^src/${room}(index|parts)[.]ts$`);
/** Rooms that demos import deeply: what commands are made of, and what a demo shows that has no public name. */
const demoRooms = {
  browser: ['browser', 'certified/wire', 'pretrained'],
  byzantine: [
    'certified/features',
    'consensus',
    'model',
    'network/wire',
    'tensor',
    'trainer',
    'worker',
  ],
  certified: ['certified', 'chain', 'consensus', 'network'],
  elastic: [],
  experts: [],
  finetune: ['model/data', 'trainer'],
  gpt: ['dashboard'],
  linear: ['formats', 'model/data', 'python/regression'],
  notes: ['social'],
  'own-model': [],
  sealed: ['attest', 'sealed'],
  shared: ['certified/wire', 'model/data'],
  train: [],
};
const demoRules = Object.entries(demoRooms).map(([name, rooms]) => {
  const allowed = ['base', 'run', 'node', 'terminal', 'cli/shared', ...rooms].join('|');
  const to = { path: '^src/', pathNot: [...entries, `^src/(${allowed})/`] };
  return never(`demos/${name} uses public entry points`, { path: `^demos/${name}/` }, to);
});
export default {
  forbidden: [
    ...layers,
    never('no-cycles', {}, { circular: true }),
    never(
      'pure-has-no-node',
      { path: `^kinds/|${dir(pure)}`, pathNot: pythonEdges },
      { dependencyTypes: ['core'] },
    ),
    never(
      'edge-packages-stay-at-the-edge',
      { path: `^kinds/|${dir(pure)}`, pathNot: pythonEdges },
      { path: 'node_modules/(ws|commander|onnxruntime-node|tiny-secp256k1)/' },
    ),
    never(
      'python-node-is-no-command',
      { path: '^src/python/node/' },
      { path: '^src/(terminal|cli|certified|python/commands)/' },
    ),
    never(
      'python-commands-stand-beside-cli',
      { path: '^src/python/commands/' },
      { path: '^src/(cli|certified|probe)/' },
    ),
    never(
      'python-is-imported-by-cli-alone',
      { path: '^src/(?!python/|cli/)' },
      { path: '^src/python/' },
    ),
    never('kinds-stand-alone', { path: '^kinds/' }, { path: '^(src|relay|demos|test)/' }),
    never('relay-stands-alone', { path: '^relay/' }, { path: '^(src|demos|test)/' }),
    never(
      'only-cli-starts-a-relay',
      { path: '^src/(?!cli/)' },
      { path: '^relay/', pathNot: '^relay/signature[.]ts$' },
    ),
    never(
      'compiled-signatures-are-native',
      { path: '^src/(?!(cli|node/native)/)' },
      { path: '^relay/signature[.]ts$' },
    ),
    never(
      'events-stop-at-network',
      {
        path: dir([
          'base',
          'tensor',
          'run',
          'model',
          'consensus',
          'worker',
          'certified',
          'formats',
          'merging',
        ]),
        pathNot: '^src/(certified/wire/|merging/link[.]ts)',
      },
      { path: '^kinds/' },
    ),
    never(
      'nothing-imports-tests-or-demos',
      { path: '^(src|kinds|relay)/', pathNot: '^src/cli/commands/demo[.]ts$' },
      { path: '^(test|demos)/' },
    ),
    ...demoRules,
    never('demos-are-no-tests', { path: '^(src/cli|demos)/' }, { path: '^test/' }),
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
  },
};
