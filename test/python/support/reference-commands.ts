/**
 * Command lines that need no relay, and how they end in the Python reference. A test holds ours to the exit codes; where the
 * reference is there, another one runs both on each line and compares all they write.
 */
import { KEY_3 } from './reference-files.ts';

export interface Line {
  readonly argv: readonly string[];
  readonly exit: 0 | 1 | 2;
  /** Intended differences between the two programs. */
  readonly differs?: string;
}

const MODEL = 'af9fc041f4830be157362d78af9c311a8e15cc19512613f92232b314a08b8506';
const SEC_3 = '3'.padStart(64, '0');
const TRAIN = 'train-local linear_initial_state.json linear_dataset_worker_a.json';
const NO_FOLDER = 'no/such/folder/out.json';

/** Splits at spaces; `''` is an empty word. */
const line = (exit: Line['exit'], words: string, differs?: string): Line => ({
  argv: words.split(' ').map((word) => (word === "''" ? '' : word)),
  exit,
  ...(differs === undefined ? {} : { differs }),
});
const done = (words: string, differs?: string): Line => line(0, words, differs);
/** Command lines that all fail this way. */
const fails = (exit: 1 | 2, command: string, ...rest: readonly string[]): readonly Line[] =>
  rest.map((words) => line(exit, `${command} ${words}`.trim()));

const states: readonly Line[] = [
  done('hash-state initial_state.json -o hash.out'),
  ...fails(
    1,
    'hash-state',
    'missing.json',
    'nonsense.json',
    'list.json',
    'object.json',
    'empty.txt',
  ),
  ...fails(2, 'hash-state', '', 'a b', '--unknown a', '--state-format xml a'),
  ...fails(1, 'hash-state', `initial_state.json -o ${NO_FOLDER}`),
  done(`derive-pubkey ${SEC_3.toUpperCase()} -o pub.out`),
  ...fails(1, 'derive-pubkey', '00', "''", 'g'.repeat(64), '0'.repeat(64), 'f'.repeat(64)),
  ...fails(2, 'derive-pubkey', '', 'a b', '--unknown x', 'x -o'),
  ...fails(1, 'derive-pubkey', `${SEC_3} -o ${NO_FOLDER}`),
  done('init-state --features 3 --seed -5 -o init.out.json'),
  done('init-state --runtime mlp-regression --features 2 --hidden-size 3 --weight-scale 1e-2'),
  ...fails(2, 'init-state', '', '--features x', '--features 1.5', '--runtime cubic --features 1'),
  ...fails(2, 'init-state --features 2', '--seed 1.5', '--weight-scale x', '--output-format xml'),
  ...fails(1, 'init-state --features', '0', '-1', '2 --output-format numpy-npz'),
  ...fails(1, 'init-state --runtime mlp-regression --features 2', '', '--hidden-size 0'),
  ...fails(1, 'init-state --features 2', `-o ${NO_FOLDER}`),
  done('convert-state current_state.json -o conv.out.json'),
  done('convert-state l.pt.npz --output-format json'),
  ...fails(1, 'convert-state', 'missing.json', 'nonsense.json', 'list.json', 'object.json'),
  ...fails(
    1,
    'convert-state',
    'l.npz --input-format json',
    'ev.json',
    'pb.txt --input-format numpy-npz',
  ),
  ...fails(1, 'convert-state initial_state.json', '--output-format numpy-npz', `-o ${NO_FOLDER}`),
  ...fails(2, 'convert-state', '', 'a b', 'a --input-format xml', 'a --torch-checkpoint-payload x'),
  done(`${TRAIN} --steps 3 --metrics-out train.out`),
  ...fails(2, 'train-local', '', 'linear_initial_state.json', 'a b c', 'a b --backend abacus'),
  ...fails(2, TRAIN, '--steps x', '--learning-rate x', '--batch-size 1.5', '--runtime cubic'),
  ...fails(1, TRAIN, '--steps 0', '--learning-rate 0', '--batch-size -1'),
  ...fails(1, TRAIN, '--runtime mlp-regression', `-o ${NO_FOLDER}`, `--metrics-out ${NO_FOLDER}`),
  ...fails(1, 'train-local', 'missing.json linear_dataset_worker_a.json', 'ev.json ev.json'),
  ...fails(1, 'train-local linear_initial_state.json', 'missing.json', 'list.json', 'object.json'),
];

const payloads: readonly Line[] = [
  done('encode-delta initial_state.json current_state.json --topk 0.3 -o enc.out'),
  done('encode-delta initial_state.json initial_state.json --topk 1'),
  done(
    'encode-delta initial_state.json current_state.json --topk 1 --codec zstd',
    'another version of libzstd',
  ),
  ...fails(2, 'encode-delta', '', 'initial_state.json', 'a b c', '--unknown a b'),
  ...fails(1, 'encode-delta initial_state.json', 'missing.json', 'nonsense.json', 'list.json'),
  ...fails(1, 'encode-delta initial_state.json', 'linear_initial_state.json'),
  ...fails(
    1,
    'encode-delta initial_state.json current_state.json',
    ...['--topk 0', '--topk 1.5', '--topk -0.1', '--topk nan', `-o ${NO_FOLDER}`],
  ),
  ...fails(
    2,
    'encode-delta initial_state.json current_state.json',
    ...['--topk many', '--topk 0x1', '--codec lz4', '--state-format xml', '--topk'],
  ),
  done('decode-payload pb.txt -o dec.out'),
  done('decode-payload wrapped.txt'),
  done('decode-payload zstd.txt'),
  ...fails(1, 'decode-payload', 'missing.json', 'empty.txt', 'junk.txt', 'cut.txt', 'object.json'),
  ...fails(
    1,
    'decode-payload',
    'number.json',
    'nonsense.json',
    'ev.json',
    `pb.txt -o ${NO_FOLDER}`,
  ),
  ...fails(2, 'decode-payload', '', 'pa.json pb.txt', '--raw pa.json'),
  done('apply-payload initial_state.json pa.json -o app.out.json'),
  ...fails(2, 'apply-payload', '', 'initial_state.json', 'a b c', 'a b --state-format xml'),
  ...fails(2, 'apply-payload', 'a b --output-format xml'),
  ...fails(1, 'apply-payload missing.json', 'pa.json'),
  ...fails(1, 'apply-payload object.json', 'pa.json'),
  ...fails(1, 'apply-payload linear_initial_state.json', 'pa.json'),
  ...fails(1, 'apply-payload initial_state.json', 'missing.json', 'junk.txt', 'empty.txt'),
  ...fails(1, 'apply-payload initial_state.json', 'initial_state.json'),
];

const rounds: readonly Line[] = [
  done('aggregate-payloads current_state.json pa.json pb.txt ev.json -o agg.out'),
  done('aggregate-payloads signable.json unsigned.json'),
  ...fails(1, 'aggregate-payloads pa.json', 'missing.json', 'empty.txt', 'junk.txt', 'object.json'),
  ...fails(1, 'aggregate-payloads pa.json', 'list.json', 'linear_initial_state.json', 'hb.json'),
  ...fails(1, 'aggregate-payloads', 'tampered.json', 'cke-full.json', `pa.json -o ${NO_FOLDER}`),
  ...fails(2, 'aggregate-payloads', '', '--weights x pa.json'),
  done(
    'outer-step initial_state.json ev.json --learning-rate 1e-3 --momentum 0 --summary-out s.out',
  ),
  done('outer-step initial_state.json pb.txt --momentum-state mom.json --momentum-out m.out.json'),
  ...fails(2, 'outer-step', '', 'initial_state.json', 'a b c'),
  ...fails(2, 'outer-step initial_state.json pa.json', '--momentum x', '--learning-rate', '--x 1'),
  ...fails(1, 'outer-step missing.json', 'pa.json'),
  ...fails(1, 'outer-step linear_initial_state.json', 'pa.json'),
  ...fails(
    1,
    'outer-step initial_state.json',
    'missing.json',
    'junk.txt',
    'hb.json',
    'object.json',
  ),
  ...fails(
    1,
    'outer-step initial_state.json pa.json',
    ...['--learning-rate 0', '--learning-rate -1', '--momentum 1', '--momentum -0.1'],
    ...['--momentum-state missing.json', '--momentum-state linear_initial_state.json'],
    ...[`--summary-out ${NO_FOLDER}`, `-o ${NO_FOLDER}`],
  ),
];

const GRADIENT = 'build-event pa.json --run r --round 7 --created-at 1700000000';
const BEAT = 'build-heartbeat --run r --round 7 --created-at 1700000000';
const CHECKPOINT = 'build-checkpoint ck.json --created-at 1700000000';

/** Author flags that every build command refuses. */
const noAuthors: readonly string[] = [
  '--sec-key 00',
  `--sec-key ${SEC_3} --pubkey ${KEY_3}`,
  `--sec-key ${SEC_3} --event-id ${MODEL}`,
  `--worker w --sig ${'0'.repeat(128)}`,
  `--worker w --event-id ${MODEL}`,
  '--pubkey abc',
  `--pubkey ${'f'.repeat(64)}`,
  `--pubkey ${KEY_3} --event-id ${MODEL}`,
  `--pubkey ${KEY_3} --event-id 00`,
  `--pubkey ${KEY_3} --sig ${'0'.repeat(128)}`,
  `--pubkey ${KEY_3} --sig 00`,
];

const builds: readonly Line[] = [
  done(`${GRADIENT} --model ${MODEL} --steps 3 --pubkey ${KEY_3} -o signable.out`),
  done(`${GRADIENT} --model ${MODEL} --sec-key ${SEC_3} --worker somebody --examples 5`),
  ...fails(
    2,
    'build-event',
    '',
    'pa.json',
    'pa.json --round 1 --model x',
    'pa.json --run r --model x',
  ),
  ...fails(
    2,
    GRADIENT,
    '',
    '--model x --worker w --steps x',
    '--model x --worker w --created-at x',
  ),
  ...fails(2, 'build-event pa.json --run r --model x --worker w --round', '1.5', '1e3', 'x'),
  ...fails(1, 'build-event pa.json --run r --model x --worker w --round', '-1'),
  ...fails(1, `${GRADIENT} --model x`, '', '--worker w --steps 0', '--worker w --examples 0'),
  ...fails(1, `${GRADIENT} --worker w --model`, "''", `x -o ${NO_FOLDER}`),
  ...fails(1, `${GRADIENT} --model x`, "--worker ''", ...noAuthors),
  ...fails(1, 'build-event pa.json --round 1 --model x --worker w --run', "''"),
  ...['missing.json', 'junk.txt', 'empty.txt'].flatMap((payload) =>
    fails(1, `build-event ${payload} --run r --round 7 --model x --worker w`, ''),
  ),
  done(
    `${BEAT} --sec-key ${SEC_3} --capability a --capability a --advertise-relay ws://x -o hb.out`,
  ),
  done(`${BEAT} --worker w --heartbeat-interval +5`),
  ...fails(
    2,
    'build-heartbeat',
    '',
    '--run r',
    '--round 1',
    '--run r --round x',
    '--run r --round 1.0',
  ),
  ...fails(2, BEAT, '--worker w --heartbeat-interval x', '--worker w extra'),
  ...fails(1, 'build-heartbeat --run r --worker w --round', '-1'),
  ...fails(1, BEAT, '', '--worker w --heartbeat-interval 0', '--worker w --examples 0'),
  ...fails(1, BEAT, "--worker w --capability ''", "--worker w --advertise-relay ''"),
  ...fails(1, BEAT, `--worker w -o ${NO_FOLDER}`, ...noAuthors),
  done(CHECKPOINT),
  done(`${CHECKPOINT} --pubkey ${KEY_3.toUpperCase()} --history-slot 3 -o cke.out`),
  done(`${CHECKPOINT} --sec-key ${SEC_3} --worker another`),
  ...fails(2, 'build-checkpoint', '', 'ck.json --history-slot x', 'ck.json --created-at x'),
  ...fails(1, CHECKPOINT, '--history-slot -1', `-o ${NO_FOLDER}`, "--worker ''", ...noAuthors),
  ...fails(
    1,
    'build-checkpoint',
    ...['missing.json', 'nonsense.json', 'list.json', 'object.json', 'ck-format.json'],
    ...['ck-first.json', 'ck-empty.json', 'ck-stateless.json', 'ck-nobody.json'],
    ...['ck-runless.json', 'ck-round.json', 'ck-runtime.json'],
  ),
];

const inspections: readonly Line[] = [
  ...['ev.json', 'hb.json', 'cke-full.json', 'unsigned.json', 'signable.json'].flatMap((file) => [
    done(`inspect-event ${file}`),
    done(`inspect-event ${file} --json -o ${file}.out`),
  ]),
  ...fails(
    1,
    'inspect-event',
    ...['missing.json', 'nonsense.json', 'list.json', 'object.json', 'other-kind.json'],
    ...['tampered.json', 'bad-sig.json', 'bad-id.json', 'no-round.json', 'no-steps.json'],
    ...['spoken.json', 'ck-hash.json', 'garbage.json', `ev.json -o ${NO_FOLDER}`],
  ),
  ...fails(2, 'inspect-event', '', 'ev.json hb.json', '--text ev.json'),
];

export const lines: readonly Line[] = [
  ...states,
  ...payloads,
  ...rounds,
  ...builds,
  ...inspections,
];
