/**
 * A run of certified rounds in chaos beside the same run in quiet: 8 workers, 3 relays, each round 30 % of the workers killed and one relay
 * lying, deleting or dead. `npm run bench:chaos -- --rounds 100 --seed 1`. The exit code is 1 when anything but time was lost.
 */
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { type Findings, judge } from '../support/chaos/findings.ts';
import { type ChaosOptions, type Played, playChaos } from '../support/chaos/play.ts';
import { type Harm, harms } from '../support/chaos/relays.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    /** Share of the workers killed in each round. */
    killed: { type: 'string', default: '0.3' },
    /** Most seconds that a killed worker is away. */
    away: { type: 'string', default: '60' },
    /** What relays do: some of lying, deleting, dead. */
    harms: { type: 'string', default: harms.join(',') },
    /** Tells of every kill, harm and round. */
    verbose: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});

const tell = (text: string) => values.verbose && console.error(text);
const options: ChaosOptions = {
  ...{ rounds: Number(values.rounds), seed: Number(values.seed), killed: Number(values.killed) },
  away: [5, Number(values.away)],
  harms: harms.filter((harm: Harm) => values.harms.split(',').includes(harm)),
  onRound: (round) => tell(JSON.stringify(round)),
  onNote: (text) => tell(`  ${text}`),
};

interface Result extends Findings, Pick<Played, 'kills' | 'harmed' | 'forgotten'> {}

async function play(isQuiet: boolean): Promise<Result> {
  const played = await playChaos({ ...options, isQuiet });
  try {
    const { kills, harmed, forgotten } = played;
    return { ...(await judge(played)), kills, harmed, forgotten };
  } finally {
    await played.close();
  }
}

const isSound = ({ roots, differing, replay, doubleSigned, banned, lost, learned }: Result) =>
  roots.length === 1 &&
  differing.length === 0 &&
  replay.root === roots[0] &&
  replay.stopped === undefined &&
  doubleSigned === 0 &&
  banned === 0 &&
  lost <= 1e-9 * Math.max(1, learned);

const rows: readonly (readonly [string, (result: Result) => string])[] = [
  ['final rounds', ({ final, rounds }) => `${final} of ${rounds}`],
  ['goodput', ({ goodput }) => `${(100 * goodput).toFixed(1)} %`],
  ['time of one round, median', ({ medianSeconds }) => `${medianSeconds.toFixed(1)} s`],
  ['p95', ({ p95Seconds }) => `${p95Seconds.toFixed(1)} s`],
  ['contributions in a final round', ({ meanAccepted }) => meanAccepted.toFixed(2)],
  ['views that failed per round', ({ meanView }) => meanView.toFixed(2)],
  ['rounds that needed recovery', ({ recovered }) => `${recovered}`],
  ['workers killed', ({ kills }) => `${kills}`],
  [
    'relay rounds lying, deleting, dead',
    ({ harmed }) => harms.map((harm) => harmed[harm]).join(', '),
  ],
  ['stored events deleted', ({ forgotten }) => `${forgotten}`],
  ['roots at the end', ({ roots }) => `${roots.length}`],
  [
    'rounds replayed of all that was sent',
    ({ replay }) => `${replay.full} full, ${replay.chain} chain`,
  ],
  [
    'of what relays hold at the end',
    ({ fromRelays: { full, chain, stopped } }) =>
      `${full} full, ${chain} chain${stopped === undefined ? '' : `; stops at ${stopped}`}`,
  ],
  ['a newcomer begins after round', ({ newcomer }) => `${newcomer?.round ?? 'nothing found'}`],
  ['signed twice, banned', ({ doubleSigned, banned }) => `${doubleSigned}, ${banned}`],
  [
    'learned and lost, largest of any value',
    ({ lost, learned }) => `${lost.toExponential(1)} of ${learned.toFixed(1)}`,
  ],
];

const quiet = await play(true);
const chaos = await play(false);
if (values.json) console.log(JSON.stringify({ quiet, chaos }));
else {
  console.log(`| ${options.rounds} rounds, seed ${options.seed} | quiet | chaos |`);
  console.log('| --- | --- | --- |');
  for (const [name, show] of rows) console.log(`| ${name} | ${show(quiet)} | ${show(chaos)} |`);
  console.log(`\nload of the machine at the end ${loadavg()[0]!.toFixed(1)}`);
}
process.exitCode = isSound(chaos) ? 0 : 1;
