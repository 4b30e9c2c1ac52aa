/** Input files of the Python reference's commands in tests: recorded ones, and some that are intentionally invalid. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  loadModelState as readStateFile,
  writeModelState as writeStateFile,
} from 'nostrain/python/node';
import { readVectors } from '../../support/vectors.ts';
import events from '../../vectors/events.json' with { type: 'json' };
import payloads from '../../vectors/payloads.json' with { type: 'json' };
import validation from '../../vectors/validation.json' with { type: 'json' };

export interface Invocation {
  readonly argv: readonly string[];
  readonly exit: number;
  readonly stdout: string;
  readonly files?: Readonly<Record<string, string>>;
}

const calls = readVectors<{
  readonly fixtures: Readonly<Record<string, unknown>>;
  readonly invocations: readonly Invocation[];
}>('cli.json');

/** All recorded calls of the reference, in their order. */
export const { invocations } = calls;

/** Public key of the secret key 3. */
export const KEY_3 = 'f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9';

/** Stands for the checkpoint that `run-training --checkpoint-out` wrote. */
const checkpoint = (() => {
  const content = JSON.parse(events.checkpoint[1]!.event.content);
  const rounds = [content.rounds[0], content.rounds[0]];
  const own = { run: 'cli-run', worker: KEY_3, next_round: 2, updated_at: 1_700_000_999 };
  return { ...content, ...own, rounds };
})();

const without = (member: string) => ({ ...checkpoint, [member]: undefined });
const validated = (name: string) => validation.cases.find((each) => each.name === name)!.event;
const recorded: Readonly<Record<string, string>> = Object.assign(
  {},
  ...invocations.map(({ files = {} }) => files),
);

const wrong: Readonly<Record<string, unknown>> = {
  'nonsense.json': 'nonsense',
  'list.json': [],
  'object.json': {},
  'empty.txt': '',
  'junk.txt': 'QUFBQUFBQUFB',
  'number.json': { payload: 3 },
  'cut.txt': recorded['pb.txt']!.trim().slice(0, 40),
  'wrapped.txt': recorded['pb.txt']!.replace(/.{40}/g, '$&\n'),
  'zstd.txt': payloads.cases.find(({ codec }) => codec === 'zstd')!.payload,
  'ck.json': checkpoint,
  'ck-format.json': { ...checkpoint, format: 'other' },
  'ck-first.json': { ...checkpoint, next_round: 0 },
  'ck-empty.json': { ...checkpoint, rounds: [], rounds_completed: 0 },
  'ck-stateless.json': without('current_state'),
  'ck-nobody.json': without('worker'),
  'ck-runless.json': without('run'),
  'ck-round.json': { ...checkpoint, rounds: [{ round: 0 }] },
  'ck-runtime.json': { ...checkpoint, runtime: 'cubic-regression' },
  'cke-full.json': validated('checkpoint-valid'),
  'unsigned.json': validated('no-pubkey-accepted'),
  'signable.json': validated('missing-sig-accepted'),
  'other-kind.json': validated('unknown-kind'),
  'tampered.json': validated('tampered-content'),
  'bad-sig.json': validated('bad-sig'),
  'bad-id.json': validated('bad-id'),
  'no-round.json': validated('gradient-missing-round'),
  'no-steps.json': validated('gradient-steps-zero'),
  'spoken.json': validated('heartbeat-nonempty-content'),
  'ck-hash.json': validated('checkpoint-wrong-hash-tag'),
  'garbage.json': validated('gradient-garbage-deflate'),
};

/** Creates a folder and writes all of the files into it. */
export async function writeReferenceFiles(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const texts = { ...recorded, ...wrong, ...calls.fixtures };
  for (const [name, content] of Object.entries(texts)) {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    await writeFile(join(folder, name), text);
  }
  // what convert-state left there before it read it again
  const linear = await readStateFile(join(folder, 'linear_initial_state.json'));
  for (const name of ['l.npz', 'l.pt.npz']) await writeStateFile(join(folder, name), linear);
}
