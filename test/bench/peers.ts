/**
 * Every comparison with another program in one command, one after the other; each plays both sides in turns. The first
 * lines name the processor and its vector extensions, because ratios differ between processors.
 *
 *   NOSTRAIN_TORCH=python npm run bench:peers -- [--only step --only relay ...] [--khatru PROGRAM] [--list]
 *
 * `step`, `sample`, `forms` and `resnet` need PyTorch, `reference` the reference's checkout (NOSTRAIN_PYTHON and
 * NOSTRAIN_REFERENCE), `relay` a program of khatru (`test/interop/khatru/install.sh` builds it).
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    khatru: { type: 'string', default: '.interop/khatru/khatru' },
    list: { type: 'boolean', default: false },
  },
});

interface Comparison {
  readonly name: string;
  readonly says: string;
  /** The script of package.json and its arguments. */
  readonly command: readonly string[];
  /** What is missing on this machine. */
  readonly missing?: string | false;
}

const withoutTorch = process.env.NOSTRAIN_TORCH === undefined && 'NOSTRAIN_TORCH names no Python';
const withoutReference =
  process.env.NOSTRAIN_REFERENCE === undefined && 'NOSTRAIN_REFERENCE names no checkout';
const withoutKhatru = !existsSync(values.khatru) && `${values.khatru} does not exist`;

const comparisons: readonly Comparison[] = [
  {
    name: 'step',
    says: 'steps of char-gpt, a GPT of 10 million parameters and adapters of SmolLM2 / PyTorch',
    command: ['bench:step'],
    missing: withoutTorch,
  },
  {
    name: 'forms',
    says: 'losses of a vision transformer and of series models / PyTorch',
    command: ['bench:forms'],
    missing: withoutTorch,
  },
  {
    name: 'resnet',
    says: 'steps of ResNet-18, imported / PyTorch',
    command: ['bench:resnet'],
    missing: withoutTorch,
  },
  {
    name: 'sample',
    says: 'tokens a second of SmolLM2 / transformers',
    command: ['bench:sample'],
    missing: withoutTorch,
  },
  {
    name: 'transport',
    says: 'verified events a second / nostr-tools; a payload over a relay / a bare WebSocket',
    command: ['bench:transport'],
  },
  {
    name: 'relay',
    says: 'ingest and fan-out of the relay / khatru',
    command: ['bench:relay', '--peer', `khatru=${values.khatru} 127.0.0.1:{port}`],
    missing: withoutKhatru,
  },
  {
    name: 'tab',
    says: 'a step in a tab / Node.js',
    command: ['bench:tab'],
  },
  {
    name: 'reference',
    says: 'payloads of the Python profile / the reference',
    command: ['bench:reference'],
    missing: withoutReference,
  },
];

/** Returns the processor's name and its vector extensions, as far as the system tells. */
function processor(): string {
  const flags = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  const extensions = ['avx', 'avx2', 'avx512f', 'avx512_bf16', 'amx_tile', 'asimd'].filter((name) =>
    new RegExp(`^(flags|Features).*\\b${name}\\b`, 'm').test(flags),
  );
  return `${cpus().length} cores of ${cpus()[0]?.model ?? 'an unknown processor'}: ${extensions.join(', ')}`;
}

const load = (): string => `load ${loadavg()[0]!.toFixed(1)}`;
const chosen = comparisons.filter(
  ({ name }) => values.only.length === 0 || values.only.includes(name),
);
console.log(`${processor()}; Node.js ${process.versions.node}`);
for (const { name, says, command, missing } of chosen) {
  console.log(`\n## ${name}: ${says}\n`);
  if (missing) console.log(`not compared: ${missing}`);
  if (missing || values.list) continue;
  const [script, ...rest] = command;
  console.log(`npm run ${script} ${rest.join(' ')} (${load()})`);
  const { status } = spawnSync('npm', ['run', '--silent', script!, '--', ...rest], {
    stdio: 'inherit',
  });
  if (status !== 0) process.exitCode = 1;
  console.log(status === 0 ? load() : `failed with ${status}`);
}
