/**
 * Measures private data: `npm run bench:sealed [MEGABYTES]` seals and opens data in memory, verifies the evidence of
 * each vendor in a new process, and joins a run with and without sealed data, in turns. Needs `npm run build`.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { verifyEvidence } from '../../src/attest/vendors.ts';
import { decryptShard, encryptShard } from '../../src/sealed/shard.ts';
import { evidenceOf, genuine } from '../attest/genuine.ts';
import { runProgram, startProgram, temporaryFolder } from '../support/processes.ts';

const MB = 1e6;
const TURNS = 5;

/** Returns wall and processor time in milliseconds. */
async function timed(work: () => unknown): Promise<{ ms: number; cpuMs: number }> {
  const [began, before] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(before);
  return { ms: performance.now() - began, cpuMs: (user + system) / 1000 };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1]!;

async function crypto(megabytes: number): Promise<void> {
  const data = new Uint8Array(megabytes * MB).map((_, i) => i * 31);
  const place = { id: 'ab'.repeat(32), shard: 0 };
  const key = new Uint8Array(32).fill(7);
  const bytes = data.length;
  const sealed = await encryptShard(data, key, place);
  const times = { seal: [] as number[], open: [] as number[] };
  for (let turn = 0; turn < TURNS; turn++) {
    times.seal.push((await timed(() => encryptShard(data, key, place))).ms);
    times.open.push((await timed(() => decryptShard(sealed, key, { ...place, bytes }))).ms);
  }
  for (const [name, each] of Object.entries(times)) {
    console.log(`${name}: ${((1000 * megabytes) / median(each)).toFixed(0)} MB/s`);
  }
}

/** Verifies one document twice, and prints the times. */
async function verify(file: string): Promise<void> {
  const { at } = genuine.find((each) => each.file === file)!;
  const evidence = evidenceOf(file);
  const first = await timed(() => verifyEvidence(evidence, at));
  const again = await timed(() => verifyEvidence(evidence, at));
  const shown = [first, again].map(
    ({ ms, cpuMs }) => `${ms.toFixed(0)} ms (${cpuMs.toFixed(0)} ms of processor time)`,
  );
  console.log(`${file}: first ${shown[0]}, again ${shown[1]}`);
}

/** Joins two runs of one worker that differ in whether the data is sealed, up to the first step. */
async function joins(megabytes: number): Promise<void> {
  const relay = await createRelay();
  const folder = temporaryFolder();
  const at = (name: string) => join(folder, name);
  const line = 'to be or not to be, that is the question of the day\n';
  writeFileSync(at('data.txt'), line.repeat((megabytes * MB) / line.length));
  writeFileSync(at('public.txt'), line.repeat(400));
  writeFileSync(at('own.json'), JSON.stringify({ data: { kind: 'own' } }));
  const run = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await runProgram(args, folder, folder);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  };
  writeFileSync(at('me.json'), await run('shard', 'key'));
  await run('shard', 'seal', at('data.txt'), '--to', at('me.json'), '-o', at('sealed'));
  const task = '--model char-gpt --rounds 2 --inner-steps 2 --batch-size 4 --context 32'.split(' ');
  const common = ['--evaluation', at('public.txt'), ...task, '--relay', relay.url, '-o'];
  await run('run', 'create', '--sealed', at('sealed'), '--name', 'sealed', ...common, at('a.json'));
  await run('run', 'create', at('own.json'), '--name', 'plain', ...common, at('b.json'));
  const from = ['manifest', 'shard-0'].flatMap((each) => ['--files-from', at(`sealed/${each}`)]);
  const sources = { 'a.json': from, 'b.json': ['--corpus', at('data.txt')] };
  const times: Record<string, number[]> = { 'a.json': [], 'b.json': [] };
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [file, source] of Object.entries(sources)) {
      const dir = ['--dir', at(`${turn}-${file}`), '--report', 'ndjson'];
      const flags = ['--relay', relay.url, '--device', 'cpu', '--threads', '1', ...source, ...dir];
      const began = performance.now();
      const { child, event, exit } = startProgram(['run', 'join', at(file), ...flags], folder);
      await event(({ type }) => type === 'progress' || type === 'trained');
      times[file]!.push(performance.now() - began);
      child.kill('SIGKILL');
      await exit.catch(() => undefined);
    }
  }
  const [sealed, plain] = ['a.json', 'b.json'].map((file) => median(times[file]!));
  const ratio = (sealed! / plain!).toFixed(2);
  const shown = [sealed!, plain!].map((ms) => `${(ms / 1000).toFixed(2)} s`);
  console.log(`join with ${megabytes} MB: ${shown[0]} sealed, ${shown[1]} not: ${ratio} times`);
  await relay.close();
}

const [argument = '64'] = process.argv.slice(2);
if (genuine.some(({ file }) => file === argument)) {
  await verify(argument);
} else {
  await crypto(Number(argument));
  for (const { file } of genuine) {
    const args = [...process.execArgv, import.meta.filename, file];
    process.stdout.write(execFileSync(process.execPath, args));
  }
  await joins(8);
}
