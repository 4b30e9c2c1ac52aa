const rows = [
  ['base'],
  ['tensor'],
  ['run'],
  ['model', 'consensus', 'network'],
  ['worker'],
  ['node', 'chain', 'dashboard'],
  ['cli'],
];
const dir = (names) => `^src/(${names.join('|')})/`;
const pure = rows.slice(0, 5).flat();
const layers = rows.flatMap((row, i) =>
  row.map((name) => ({
    name: `src/${name} imports only rows above it`,
    severity: 'error',
    from: { path: dir([name]) },
    to: {
      path: dir([...row.filter((other) => other !== name), ...rows.slice(i + 1).flat(), 'NONE']),
    },
  })),
);
const never = (name, from, to) => ({ name, severity: 'error', from, to });
export default {
  forbidden: [
    ...layers,
    never('no-cycles', {}, { circular: true }),
    never('pure-has-no-node', { path: `^kinds/|${dir(pure)}` }, { dependencyTypes: ['core'] }),
    never(
      'edge-packages-stay-at-the-edge',
      { path: `^kinds/|${dir(pure)}` },
      { path: 'node_modules/(ws|commander|onnxruntime-node|tiny-secp256k1)/' },
    ),
    never('kinds-stand-alone', { path: '^kinds/' }, { path: '^(src|relay|demos|test)/' }),
    never('relay-stands-alone', { path: '^relay/' }, { path: '^(src|demos|test)/' }),
    never('only-cli-starts-a-relay', { path: '^src/(?!cli/)' }, { path: '^relay/' }),
    never(
      'events-stop-at-network',
      { path: dir(['base', 'tensor', 'run', 'model', 'consensus', 'worker']) },
      { path: '^kinds/' },
    ),
    never(
      'nothing-imports-tests-or-demos',
      { path: '^(src|kinds|relay)/' },
      { path: '^(test|demos)/' },
    ),
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
  },
};
