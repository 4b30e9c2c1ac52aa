/** docs/reference/: exit codes, environment variables, files and folders. What they say of code is from tables of the code. */

import { exitCodes } from '../../src/terminal/output.ts';
import { code, table } from './markdown.ts';

export const renderExitCodes = (): string =>
  [
    '# Exit codes',
    'What `$?` is after a command, made from [src/terminal/output.ts](../../src/terminal/output.ts).',
    table(
      ['code', 'what happened'],
      Object.values(exitCodes).map(({ code: number, means }) => [code(`${number}`), means]),
    ),
    'An error is two lines on stderr: `error (area/what): …` names what is wrong, `try: …` says what to do next. The code in parentheses is stable: it stays the same from version to version, so a script may look at it. With `--report ndjson` a worker that fails says the same as an event of type `failed`.',
    'A second Ctrl-C ends the process at once, with the same code and nothing more saved than before the round.',
  ].join('\n\n');

/** Every variable that the program reads itself. */
export const environment: Readonly<Record<string, string>> = {
  NOSTRAIN_HOME: 'the [data folder](files-and-folders.md): runs, keys and downloads are kept there',
  HF_ENDPOINT: 'the hub that `hf:` names are fetched from, instead of `https://huggingface.co`',
  HF_TOKEN: 'sent to that hub, for models that are private or have a licence to accept',
  HF_HUB_CACHE:
    'where the Python programs keep models they downloaded; used as it is, by default `hub` in `HF_HOME`',
  HF_HOME: 'the folder of that cache, by default `huggingface` in `XDG_CACHE_HOME`',
  XDG_CACHE_HOME: 'by default `~/.cache`',
  XDG_DATA_HOME:
    'the data folder is `nostrain` in it, unless `NOSTRAIN_HOME` is set; on every system',
  LOCALAPPDATA:
    'on Windows: the data folder is `nostrain` in it, unless one of the two above is set',
  NOSTRAIN_SEC_KEY:
    'secret key (hex or nsec) of the worker, where neither `--sec-key` nor `--key-file` names one; other programs of the same user can read it',
  PATH: 'whether the shell finds `nostrain`: the lines to copy that the program prints begin so, or with `node` and its file; and where `demo browser --headless` looks for a Chromium',
  NO_COLOR: 'anything but an empty text: no colors in the live view',
};

/** Variables that Node.js and installers read on the way. */
const others: Readonly<Record<string, string>> = {
  ONNXRUNTIME_NODE_INSTALL:
    '`cuda12` while installing onnxruntime-node: also fetch the libraries for NVIDIA GPUs',
  'FORCE_COLOR, TERM, COLORTERM': 'Node.js: whether a terminal has colors',
  NODE_EXTRA_CA_CERTS: 'Node.js: certificates to trust besides its own, for relays at `wss://`',
};

export const renderEnvironment = (): string =>
  [
    '# Environment variables',
    'Every variable that the program reads. A flag wins over a variable.',
    table(
      ['variable', 'what it says'],
      Object.entries(environment).map(([name, says]) => [code(name), says]),
    ),
    'What Node.js and the engine read:',
    table(
      ['variable', 'what it says'],
      Object.entries(others).map(([name, says]) => [name.split(', ').map(code).join(', '), says]),
    ),
  ].join('\n\n');

/** What a worker's folder can hold; tests compare it with the folder of a real run. */
export const runFiles: Readonly<Record<string, string>> = {
  'settings.json':
    'all settings that the run was started with, in the form that `--settings FILE` reads; a later start may ask for other relays, waits, `--sync` and more `--rounds`, and is refused otherwise',
  'state.safetensors':
    "the shared model, each tensor under its own name, and under `nostrain.…` the worker's outer momentum, optimizer moments, residual and the last 32 rounds; replaced whole after every phase",
  'log.ndjson':
    'one line per [event](json-documents.md#lines-of---report-ndjson), as `--report ndjson` prints them but for `progress`; `at` is in ms since 1970; `nostrain show` and `page` read older rounds from it',
  'log.1.ndjson':
    'the log before it: at 8 MiB, `log.ndjson` takes its place, so both together stay below 16 MiB',
  key: 'secret key of this worker, as nsec; made once, readable by you only',
  'base.json':
    'runs of a published model: its files with length and SHA-256, and the hash of its tokenizer; the run goes on with no other',
  'run.json': "certified runs: the run's spec, in the exact bytes whose SHA-256 is its id",
  'evaluation.txt':
    'certified runs whose workers have their own data: what everybody evaluates on (a text, a CSV, packed pictures), checked by its SHA-256',
  'votes.json':
    'certified runs: what this worker has signed in the round in progress, so that it never contradicts itself',
  'past/':
    'certified runs: what decided the newest rounds, published again if all relays have forgotten them, and read by `archive`, `replay`, `explain` and `receipt`; beyond 64 MiB the oldest are removed, but none since the oldest checkpoint that relays keep; may be deleted',
  lock: 'the number of the process that plays the worker; a lock left by a dead one is taken over',
};

/** What the data folder holds. */
const homeFiles: Readonly<Record<string, string>> = {
  'runs/NAME/':
    'one worker: by the name of the run, with its shard where several are here (`winter-2-of-3`); a certified run by the first 16 digits of its id',
  'demos/NAME/':
    'the newest demo of each kind, a folder per worker, and its text; replaced by the next one',
  'models/':
    'models fetched by `hf:owner/name`, by commit, each file checked by its hash; those that the Python programs have in their cache are used there; SmolLM2 where `npm run fetch:smollm2` put it',
  'corpora/':
    'texts that were downloaded, each checked by its SHA-256, and `tokens-…`: corpora as token ids, made anew where they are missing',
  key: 'your key in certified runs (`run create`, `run join`, `run leave`, `stake link`), as nsec',
  'keys/key': 'the key of `run-training STATE DATASET`, where no other is named',
  'lobbies/NAME/':
    'a lobby that you host: its secret, its text in chunks, and the events of its relay; a restarted host needs it',
  'locks/':
    'one file per key and run that is being played, so that no two processes sign with one key',
};

export const renderFiles = (): string =>
  [
    '# Files and folders',
    'Everything that the program keeps on a machine is in one folder, unless a flag (`--dir`, `--key-file`, `-o`, `--out`) names another place. `nostrain runs` lists the runs in it, `nostrain doctor` says whether it can be written to.',
    table(
      ['system', 'data folder'],
      [
        [
          'anywhere',
          '`$NOSTRAIN_HOME`, where it is set; else `$XDG_DATA_HOME/nostrain`, where that is set; else:',
        ],
        ['Linux and others', '`~/.local/share/nostrain`'],
        ['macOS', '`~/Library/Application Support/nostrain`'],
        ['Windows', '`%LOCALAPPDATA%\\nostrain`'],
      ],
    ),
    'Nothing is kept in the registry, in `%APPDATA%` or in a configuration file, and nothing starts by itself.',
    '## In the data folder',
    table(
      ['path', 'what it is'],
      Object.entries(homeFiles).map(([name, says]) => [code(name), says]),
    ),
    '## In the folder of a run',
    table(
      ['file', 'what it is'],
      Object.entries(runFiles).map(([name, says]) => [code(name), says]),
    ),
    'Any tool that reads safetensors opens `state.safetensors`. `nostrain convert-state` writes the model alone, also as `.npz`, `.pt` or JSON. A file that ends in `.tmp` or `.part` is one whose writing was cut short; it is of no use.',
    '## Copy, move, back up',
    'A folder of a run can be copied while nothing plays it, and the same command goes on with `--dir`. Play a key in one place only: two workers with one key contradict each other, and in a certified run the key is thrown out. Keys are all that cannot be made again; back up `key` files and nothing else.',
    '## Remove everything',
    [
      '1. `nostrain clean` lists the finished runs with their sizes, and `nostrain clean --yes` removes them. `--older-than DAYS` takes stopped ones too, a name takes that run. Keys stay.',
      '2. Delete the data folder, and with it your keys: `rm -r ~/.local/share/nostrain`, or the path in the first line of `nostrain runs --json`.',
      '3. Remove the program: `npm uninstall nostrain` (with `-g` where it was installed so), or delete its checkout.',
    ].join('\n'),
    "What was published is on relays and not on this machine: it expires there by itself after the run's lifetime, where the relay obeys NIP-40.",
  ].join('\n\n');
