/**
 * Makes small wrong changes to one room, one at a time, and says which of them no unit test notices:
 * `npm run mutate -- consensus --files 'src/consensus/round/**'`. --tests limits the tests likewise, and --every 10
 * tries every tenth change. StrykerJS makes the changes; its exact versions are in the lockfile here and are installed
 * into .bench/stryker. Results are kept in .bench/mutation: what did not change since is not tried again, unless --force
 * is given. The exit code is 1 below the room's target.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installTools } from '../support/install-tools.ts';
import { mutationRooms } from './rooms.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const here = join(root, 'test/mutation');
const tools = join(root, '.bench/stryker');
const results = join(root, '.bench/mutation');

/** The part of Stryker's JSON report that is read here. */
interface MutationReport {
  readonly files: Readonly<Record<string, { source: string; mutants: readonly Mutant[] }>>;
}

interface Mutant {
  readonly id: string;
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly status: string;
  readonly location: { readonly start: Position; readonly end: Position };
}

interface Position {
  readonly line: number;
  readonly column: number;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    files: { type: 'string', multiple: true },
    tests: { type: 'string', multiple: true },
    every: { type: 'string', default: '1' },
    concurrency: { type: 'string', default: '2' },
    force: { type: 'boolean', default: false },
  },
});
const every = Number(values.every);
const name = positionals[0] ?? '';
const room = mutationRooms[name];
if (room === undefined) {
  const names = Object.keys(mutationRooms).join(', ');
  console.error(`mutate: "${name}" is not a room. Name one of ${names}.`);
  process.exit(2);
}

/** Runs a program in a folder and ends this one if it fails. */
function run(program: string, args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync(program, args, {
    cwd,
    stdio: 'inherit',
    env: {
      ...process.env,
      NOSTRAIN_MUTATION_ROOM: name,
      NOSTRAIN_MUTATION_EVERY: values.every,
      NOSTRAIN_MUTATION_TESTS: JSON.stringify(values.tests ?? room!.tests),
    },
  });
  if (status === 0) return;
  console.error(`mutate: ${program} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  process.exit(2);
}

/** Returns the report on all files of the room, or on those asked for. */
function mutate(): MutationReport {
  const config = join(results, `${name}.config.json`);
  const report = join(results, `${name}.report.json`);
  mkdirSync(results, { recursive: true });
  const options = {
    testRunner: 'warm',
    plugins: ['messages', 'warm-runner'].map((plugin) => join(here, `${plugin}.mjs`)),
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    mutate: values.files ?? room!.sources,
    mutator: { excludedMutations: ['StringLiteral'] },
    ignorers: ['messages'],
    // a change to what a module computes when it is loaded would run all tests
    ignoreStatic: true,
    ignorePatterns: ['/.*', '/dist', '/docs'],
    incremental: true,
    incrementalFile: join(results, `${name}${every > 1 ? `.${every}` : ''}.json`),
    force: values.force,
    concurrency: Number(values.concurrency),
    // the runner ends endless loops; a busy machine is no reason to call a change noticed
    timeoutMS: 900_000,
    dryRunTimeoutMinutes: 30,
    tempDirName: '.bench/mutation/sandbox',
    reporters: ['json', 'progress-append-only'],
    jsonReporter: { fileName: report },
    checkers: [],
    allowConsoleColors: false,
  };
  writeFileSync(config, JSON.stringify(options, null, 2));
  run('nice', [join(tools, 'node_modules/.bin/stryker'), 'run', config], root);
  return JSON.parse(readFileSync(report, 'utf8'));
}

const isNoticed = ({ status }: Mutant) => status === 'Killed' || status === 'Timeout';
const isMissed = ({ id, status }: Mutant) =>
  status === 'Survived' || (status === 'NoCoverage' && Number(id) % every === 0);
const percentOf = (noticed: number, all: number) =>
  all === 0 ? '' : ((100 * noticed) / all).toFixed(1);

/** The changed text on one line, shortened. */
const short = (text: string) => {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 70 ? `${line.slice(0, 67)}...` : line;
};

function textAt(source: string, { start, end }: Mutant['location']): string {
  const lines = source.split('\n').slice(start.line - 1, end.line);
  lines[lines.length - 1] = lines.at(-1)!.slice(0, end.column - 1);
  return lines.join('\n').slice(start.column - 1);
}

const started = Date.now();
installTools(here, 'stryker');
const { files } = mutate();
const rows = Object.entries(files)
  .map(([file, { source, mutants }]) => ({
    ...{ file, source, missed: mutants.filter(isMissed) },
    noticed: mutants.filter(isNoticed).length,
  }))
  .filter(({ noticed, missed }) => noticed + missed.length > 0);

for (const { file, source, missed } of rows)
  for (const mutant of missed) {
    const { start } = mutant.location;
    const untested = mutant.status === 'NoCoverage' ? ' (no test runs it)' : '';
    console.log(`${file}:${start.line}:${start.column} ${mutant.mutatorName}${untested}`);
    console.log(`    ${short(textAt(source, mutant.location))}`);
    console.log(`    ${short(mutant.replacement ?? '')}`);
  }
console.log('\n| file | changes | noticed | percent |\n| --- | --- | --- | --- |');
for (const { file, noticed, missed } of rows) {
  const all = noticed + missed.length;
  console.log(`| ${file} | ${all} | ${noticed} | ${percentOf(noticed, all)} |`);
}
const noticed = rows.reduce((sum, row) => sum + row.noticed, 0);
const all = rows.reduce((sum, row) => sum + row.noticed + row.missed.length, 0);
const minutes = ((Date.now() - started) / 60_000).toFixed(0);
const percent = percentOf(noticed, all);
console.log(`| ${name} | ${all} | ${noticed} | ${percent} |`);
console.log(`\n${minutes} minutes; the target of ${name} is ${room.target} percent`);
if (Number(percent) < room.target) process.exitCode = 1;
