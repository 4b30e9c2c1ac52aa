/** The programs of other projects that tests run against, as the table in `CONTRIBUTING.md`. */
import { blossomServers } from './blossom-servers.ts';
import { thirdParties } from './third-parties.ts';
import type { ThirdProgram } from './third-party.ts';

export interface OtherProgram {
  readonly name: string;
  readonly version: string;
  readonly language: string;
  readonly plays: string;
  /** Paths below `test`. */
  readonly tests: readonly string[];
  /** How to install it, or the variables that name it. */
  readonly install: string;
  /** How `.ci/run` gets it. */
  readonly inCi: 'by its script' | 'with `npm ci`' | 'with `apt-get`' | 'recorded' | 'no';
}

/** Names of the programs that `.ci/run` installs by their scripts. */
const installedInCi = ['khatru', 'khatru-blossom', 'blossom-rs', 'nip46-go'];

const interop = (...names: readonly string[]) => names.map((name) => `interop/${name}.test.ts`);
const python = { language: 'Python', version: 'any', inCi: 'no' } as const;
const recorded = { language: 'Python', install: 'none: `test/vectors`', inCi: 'recorded' } as const;

const server =
  (plays: string, ...tests: readonly string[]) =>
  ({ name, version, language, install }: ThirdProgram): OtherProgram => ({
    ...{ name, version, language, plays, install: `\`${install}\``, tests: interop(...tests) },
    inCi: installedInCi.includes(name) ? 'by its script' : 'no',
  });

export const otherPrograms: readonly OtherProgram[] = [
  ...thirdParties.map(
    server('relay', 'contract', 'demo', 'dense-text', 'hostile-relays', 'run-page', 'social'),
  ),
  ...blossomServers.map(server('Blossom server', 'blossom')),
  {
    ...{ name: 'nip46-go', version: 'go-nostr 0.51.8', language: 'Go', plays: 'remote signer' },
    tests: interop('remote-signer'),
    install: '`bash test/interop/nip46-go/install.sh`',
    inCi: 'by its script',
  },
  {
    ...{ name: 'applesauce, NDK', version: '6.2.0, 3.0.3', language: 'TypeScript' },
    plays: 'readers of notes, handlers, records',
    tests: interop('social'),
    install: '`bash test/interop/applesauce/install.sh`',
    inCi: 'no',
  },
  {
    ...{ ...python, name: 'nostr-sdk', version: '0.45.1', plays: 'reader of notes' },
    tests: interop('social'),
    install: '`bash test/interop/nostr-sdk/install.sh`',
  },
  {
    ...{ ...python, name: 'nostrain (reference)', version: '0.12.0' },
    plays: 'worker and commands',
    tests: interop('mixed-fleet', 'reference-relays', 'reference/commands', 'state-commands'),
    install: '`NOSTRAIN_PYTHON`, `NOSTRAIN_REFERENCE`',
  },
  {
    ...{ ...recorded, name: 'nostrain (reference)', version: '0.12.0' },
    plays: 'worker, commands and files',
    tests: ['python/worker/recorded-session.test.ts', 'python/commands/reference.test.ts'],
  },
  {
    ...{ ...python, name: 'NumPy, PyTorch, safetensors', plays: 'state files' },
    tests: interop('state-files'),
    install: '`NOSTRAIN_PYTHON`, `NOSTRAIN_REFERENCE`',
  },
  {
    ...{ ...python, name: 'transformers, PEFT, gguf', plays: 'readers of exported models' },
    tests: interop('exported-models'),
    install: '`NOSTRAIN_TORCH`',
  },
  {
    ...{ ...python, name: 'onnxruntime for Python', plays: 'exported ONNX models' },
    tests: interop('onnx-models'),
    install: '`NOSTRAIN_TORCH`',
  },
  {
    ...{ ...python, name: 'follow', plays: 'follower written from docs/nip.md' },
    tests: interop('follow'),
    ...{ install: '`bash test/interop/follow/install.sh`', inCi: 'by its script' },
  },
  {
    ...{ ...python, name: 'blake3, b3sum', language: 'Python, Rust', plays: 'hashes of chunks' },
    tests: interop('chunk-hashes'),
    install: '`pip install blake3`, Debian: `b3sum`',
  },
  {
    ...{ ...recorded, name: 'PyTorch', version: '2.15.0, 2.11.0', plays: 'gradients, AdamW' },
    tests: [
      'model/architectures/gpt-pytorch.test.ts',
      'model/architectures/patches.test.ts',
      'model/imported/pytorch.test.ts',
    ],
  },
  {
    ...{ ...recorded, name: 'transformers', version: '5.23.0', plays: 'decoders, tokenizers' },
    tests: [
      'model/architectures/decoders-transformers.test.ts',
      'pretrained/multilingual.test.ts',
      'pretrained/smollm2.test.ts',
    ],
  },
  {
    ...{
      ...recorded,
      name: 'tokenizers, gguf',
      version: '0.23.3',
      plays: 'tokenizers, GGUF blocks',
    },
    tests: ['pretrained/published.test.ts'],
  },
  {
    ...{
      ...recorded,
      name: 'onnxruntime, tf2onnx',
      version: '1.32.0, 1.17.0',
      plays: 'ONNX models',
    },
    tests: ['model/imported/fused.test.ts', 'model/imported/tf2onnx.test.ts'],
  },
  {
    ...{ ...recorded, name: 'PEFT', version: '0.21.2', plays: 'adapters' },
    tests: ['model/adapters/lora-peft.test.ts'],
  },
  {
    ...{ ...recorded, name: 'NumPy', version: '2.4.6', plays: 'aggregation rules' },
    tests: ['consensus/aggregate/rules.test.ts'],
  },
  {
    ...{ name: 'anvil', version: '1.7.1', language: 'Rust', plays: 'Ethereum node' },
    tests: ['chain/process/registry-source.test.ts', 'chain/process/slashing.test.ts'],
    ...{ install: '`npm ci`', inCi: 'with `npm ci`' },
  },
  {
    ...{ name: 'Chromium', version: 'any', language: 'C++', plays: 'browser' },
    tests: ['page/process/run-page.test.ts', 'browser/e2e/demo-browser.test.ts'],
    ...{ install: 'Debian: `chromium`', inCi: 'with `apt-get`' },
  },
];

export function renderPrograms(): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const link = (test: string) =>
    `[\`${test.replace(/^interop\/|\.test\.ts$/g, '')}\`](test/${test})`;
  return [
    line(['program', 'version', 'language', 'plays', 'tests', 'installed by', '`.ci/run` has it']),
    line(Array<string>(7).fill('---')),
    ...otherPrograms.map(({ name, version, language, plays, tests, install, inCi }) =>
      line([name, version, language, plays, tests.map(link).join(', '), install, inCi]),
    ),
  ].join('\n');
}
