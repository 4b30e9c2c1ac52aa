/** The seven workers of `nostrain demo certified` and what befalls them, each in its turn: at no time are more than two away. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Scope } from '../../src/base/scope.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { publishRun } from '../../src/certified/wire/run-registry.ts';
import { withRelays } from '../../src/cli/shared/with-relays.ts';
import { createSigner, type Signer } from '../../src/network/event.ts';
import { createSecretKey, writeKeyFile } from '../../src/node/files/keys.ts';
import { nativeCrypto } from '../../src/node/native/event-crypto.ts';
import type { WorkerId } from '../../src/run/ids.ts';
import type { RunSpec } from '../../src/run/spec/run-spec.ts';
import { connectionOf } from '../../src/terminal/connection.ts';
import { type Exit, type Running, startWorker, type WorkerProcess } from '../shared/swarm.ts';
import { type Attack, startAdversary } from './adversary.ts';
import { type FlipperStage, startSignFlipper } from './sign-flipper.ts';

interface CrewMember {
  readonly name: string;
  readonly attack?: Attack;
  /** Sends the opposite of what it learned. */
  readonly flips?: boolean;
  /** Killed once this round is over, started again after that one. */
  readonly away?: { readonly after: number; readonly until: number };
}

/** In the order of their keys' places in the demo; the first one is honest and stays. */
export const crew: readonly CrewMember[] = [
  { name: 'alice' },
  { name: 'bob' },
  { name: 'carol' },
  { name: 'dave', attack: { silent: { from: 1, to: 2 } } },
  { name: 'erin', flips: true },
  { name: 'frank', away: { after: 2, until: 4 } },
  { name: 'grace', attack: { equivocateFrom: 5 } },
];

/** A worker of the demo with its key. */
export interface Hand {
  readonly name: string;
  readonly pubkey: WorkerId;
  readonly signer: Signer;
}

/** A folder and a key of its own. */
export async function enlist(name: string, dir: string): Promise<Hand> {
  const folder = join(dir, name);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const secretKey = createSecretKey();
  await writeKeyFile(join(folder, 'key'), secretKey);
  const signer = createSigner(secretKey, nativeCrypto);
  return { name, pubkey: signer.publicKey, signer };
}

/** Tells the relays of the run, so that its workers find it. */
export async function announce(
  spec: RunSpec,
  { signer }: Hand,
  urls: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await withRelays(urls, { connection: connectionOf({ timeout: 10 }), signer, signal }, (board) =>
    publishRun(spec, undefined, { ...board, sign: (draft) => signer.sign(draft) }),
  );
}

interface Stage {
  readonly dir: string;
  /** The run spec. */
  readonly file: string;
  /** By worker. */
  readonly relays: ReadonlyMap<string, readonly string[]>;
  readonly corpus: string;
  readonly stakeFile: string;
  readonly spec: RunSpec;
  /** By worker. */
  readonly keys: ReadonlyMap<string, WorkerId>;
}

/** The addresses each worker is given: the relays, or an adversary in front of them. */
export async function relaysOf(
  hands: readonly Hand[],
  relays: readonly string[],
  scope: Scope,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const entries = crew.map(async ({ name, attack }, i) => {
    const given = attack ? startAdversary(relays, hands[i]!.signer, attack, scope) : relays;
    return [name, await given] as const;
  });
  return new Map(await Promise.all(entries));
}

interface Watch {
  onEvent(name: string, event: RunEvent): void;
  onNotice(message: string): void;
  readonly signal: AbortSignal;
}

/** Plays all of them to the end of the run; a stop reaches all of them. */
export async function playCrew(
  stage: Stage,
  { onEvent, onNotice, signal }: Watch,
): Promise<readonly Omit<Exit, 'stopped'>[]> {
  const running = new Map<string, Running>();
  const exits = new Map<string, Promise<Omit<Exit, 'stopped'>>>();
  const take = (name: string, event: RunEvent) => {
    onEvent(name, event);
    if (name !== crew[0]!.name || event.type !== 'round') return;
    for (const member of crew) {
      if (member.away?.after === event.index) {
        onNotice(`${member.name} is killed`);
        running.get(member.name)?.kill('SIGKILL');
      }
      if (member.away?.until === event.index) {
        onNotice(`${member.name} is started again`);
        start(member);
      }
    }
  };
  function start(member: CrewMember): void {
    const worker = member.flips
      ? startSignFlipper(member.name, flipperOf(member, stage), take)
      : startWorker(processOf(member, stage), take);
    running.set(member.name, worker);
    exits.set(member.name, worker.exit);
    // without it the others could only wait for it
    if (!member.away) void worker.exit.then(({ code }) => code !== 0 && stop());
  }
  const stop = () => {
    for (const { kill } of running.values()) kill('SIGINT');
  };
  signal.addEventListener('abort', stop, { once: true });
  crew.forEach(start);
  // those that stay end last; who was killed has an exit of its second life by then
  const staying = crew.filter(({ away }) => away === undefined);
  await Promise.all(staying.map(({ name }) => exits.get(name)));
  const all = await Promise.all(exits.values());
  signal.removeEventListener('abort', stop);
  return all;
}

const flipperOf = (
  { name }: CrewMember,
  { dir, relays, spec, keys, corpus, stakeFile }: Stage,
): FlipperStage => ({
  spec,
  pubkey: keys.get(name)!,
  dir: join(dir, name),
  relays: relays.get(name)!,
  corpus,
  stakeFile,
  waitFor: crew.length,
});

/** The command line of one worker; the first one evaluates for all. */
function processOf({ name }: CrewMember, stage: Stage): WorkerProcess {
  const { dir, file, relays, corpus, stakeFile } = stage;
  const folder = join(dir, name);
  const args = [
    'run',
    'join',
    file,
    '--dir',
    folder,
    '--key-file',
    join(folder, 'key'),
    '--corpus',
    corpus,
    '--stake',
    stakeFile,
    '--wait-for',
    `${crew.length}`,
    '--device',
    'cpu',
    '--threads',
    '1',
    '--heartbeat-interval',
    '10',
    '--report',
    'ndjson',
    ...relays.get(name)!.flatMap((url) => ['--relay', url]),
    ...(name === crew[0]!.name ? [] : ['--no-evaluate']),
  ];
  return { name, args };
}
