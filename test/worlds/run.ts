/**
 * Plays worlds: `npm run worlds -- --seeds 1..1000 --json`. If a world breaks an invariant, prints the command that
 * replays it: `--seed N --verbose` prints what happens in it, `--shrink` searches for a smaller world that breaks the
 * same invariant.
 */
import { parseArgs } from 'node:util';
import { type Report, reportOn } from './batch.ts';
import { bundle } from './bundle.ts';
import { type Plant, plants } from './plants.ts';
import { playAll } from './pool.ts';
import { complaintOf, lineOf, summaryOf } from './report.ts';
import { shrink } from './shrink.ts';
import { drawWorld, type Size, type World } from './world.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1..100' },
    seed: { type: 'string' },
    size: { type: 'string', default: 'small' },
    /** A world as JSON, in place of a drawn one. */
    world: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    /** Plants bugs in the program, of this name or `all`: which seed finds each. */
    plant: { type: 'string' },
    shrink: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});
const size = values.size as Size;

function* worldsOf(range: string): Generator<World> {
  const [from = 1, to = from] = range.split('..').map(Number);
  for (let seed = from; seed <= to; seed++) yield drawWorld(seed, size);
}

/** Returns a smaller world in which the same invariant breaks first. */
async function shrunk(world: World): Promise<World> {
  const broken = async (one: World) => (await reportOn(one)).violations[0]?.invariant;
  const wanted = await broken(world);
  if (wanted === undefined) return world;
  const breaks = async (smaller: World) => (await broken(smaller)) === wanted;
  return shrink(world, breaks, (smaller) => console.error(JSON.stringify(smaller)));
}

/** Plays one world in this process. */
async function playOne(drawn: World): Promise<number> {
  const world = values.shrink ? await shrunk(drawn) : drawn;
  const report = await reportOn(world);
  if (values.verbose) console.log(JSON.stringify(world));
  if (values.verbose) for (const note of report.notes) console.log(note);
  console.log(lineOf(report));
  for (const { invariant, message } of report.violations) console.log(`${invariant}: ${message}`);
  return report.violations.length;
}

async function playMany(): Promise<number> {
  const program = await bundle();
  const started = performance.now();
  const reports: Report[] = [];
  const onReport = (report: Report): true => {
    reports.push({ ...report, notes: [] });
    if (values.verbose) console.error(lineOf(report));
    const complaint = complaintOf(report, size);
    if (complaint !== undefined) console.error(complaint);
    return true;
  };
  await playAll(worldsOf(values.seeds), { jobs: Number(values.jobs), program, onReport });
  const summary = summaryOf(reports, (performance.now() - started) / 1000);
  console.log(values.json ? JSON.stringify(summary) : JSON.stringify(summary, null, 2));
  return summary.violations;
}

/** Returns the number of bugs that no world found. */
async function playPlanted(name: string): Promise<number> {
  const planted = plants.filter((plant) => name === 'all' || plant.name === name);
  let missed = 0;
  for (const plant of planted) if (!(await finds(plant))) missed++;
  return missed;
}

/** Plays worlds with a bug until one breaks an invariant. */
async function finds(plant: Plant): Promise<boolean> {
  const found: Report[] = [];
  const program = await bundle(plant);
  const onReport = (report: Report): boolean => {
    if (report.violations.length > 0) found.push(report);
    return found.length === 0;
  };
  await playAll(worldsOf(values.seeds), { jobs: Number(values.jobs), program, onReport });
  const { name: bug } = plant;
  // all worlds before the first found have been played, however many processes share the work
  const [finding] = found.sort((a, b) => a.world.seed - b.world.seed);
  const seed = finding?.world.seed;
  const { invariant, message } = finding?.violations[0] ?? {};
  console.log(JSON.stringify({ bug, seed, invariant, message }));
  return finding !== undefined;
}

const one = values.world === undefined ? values.seed : undefined;
const violations =
  values.world !== undefined
    ? await playOne(JSON.parse(values.world) as World)
    : one !== undefined
      ? await playOne(drawWorld(Number(one), size))
      : values.plant !== undefined
        ? await playPlanted(values.plant)
        : await playMany();
process.exitCode = violations > 0 ? 1 : 0;
