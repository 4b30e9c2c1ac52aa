/**
 * `nostrain demo certified`: seven workers that need not trust each other, over three relays of which one lies. A witness is silent, a worker
 * is killed and comes back, one votes twice, one sends the opposite of what it learned: one after the other, so that a quorum is always left.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRelay } from 'nostrain/relay';
import { publishOver } from '../../src/cli/shared/stake-refresh.ts';
import { roundName } from '../../src/run/round-name.ts';
import type { Untyped } from '../../src/run/spec/spec-readers.ts';
import { formatStakeJson } from '../../src/run/stake/stake-json.ts';
import { certify, enlist, replayKept, smallGpt } from '../shared/certified.ts';
import { demoText } from '../shared/data.ts';
import { EventLog } from '../shared/document.ts';
import { type DemoFlags, onStage, type Stage } from '../shared/stage.ts';
import { crew, playCrew, relaysOf } from './crew.ts';
import { type CertifiedDocument, certifiedDocumentOf } from './document.ts';
import { demoStakes } from './stakes.ts';

/** Rounds of the demo: see crew.ts for what happens in which. */
const ROUNDS = 8;

const specFor = ({ quick = false, seed }: DemoFlags, stake: Untyped) => ({
  rules: {
    stake,
    screening: true,
    scores: true,
    telemetry: true,
    committee: { size: 64, quorum: 'bft', weights: 'stake', minStake: '1' },
    timing: { graceMinMs: 2000, graceMaxMs: 60_000, deadlineC: 4, viewMs: 10_000, recoveryMs: 0 },
  },
  training: { ...smallGpt, innerSteps: quick ? 5 : 40, rounds: ROUNDS, seed },
});

/** Returns the exit code: 0 when all honest workers agree, every hostile one was named, and the run replays. */
export const runCertifiedDemo = (flags: DemoFlags): Promise<number> =>
  onStage(flags, { name: 'certified', workers: crew.map(({ name }) => name) }, async (stage) => {
    const { dir, signal, onNotice, scope } = stage;
    const hands = await Promise.all(crew.map((member) => enlist(member.name, dir)));
    const relays = await startRelays(stage);
    const { file: corpus } = await demoText(stage);
    const stakes = await demoStakes(hands, stage);
    const stakeFile = join(dir, 'stakes.json');
    await writeFile(stakeFile, formatStakeJson(stakes.snapshot));
    const named = { name: 'certified', dir, corpus, relays, onNotice, signal };
    const { spec, file } = await certify(hands, { ...specFor(flags, stakes.rule), ...named });
    await publishOver(relays, stakes.snapshot, signal);
    const log = new EventLog();
    const exits = await playCrew(
      { dir, file, spec, hands, corpus, stakeFile, relays: await relaysOf(hands, relays, scope) },
      {
        onEvent(name, event) {
          log.take(name, event);
          stage.report(name, event);
        },
        onNotice,
        signal,
      },
    );
    signal.throwIfAborted();
    const { archive, eventsFile, report } = await replayKept(spec, relays, dir, signal);
    const cast = crew.map(({ name, attack, flips = false }, i) => ({
      name,
      pubkey: hands[i]!.pubkey,
      hostile: flips || attack?.equivocateFrom !== undefined,
    }));
    const document = certifiedDocumentOf(log, cast, archive.events, {
      replay: { ok: report.ok, rounds: report.rounds },
      eventsFile,
      wallSeconds: stage.wallSeconds(),
    });
    const failed = stage.end(document, exits);
    return tellEnd(document, stage) && !failed ? 0 : 1;
  });

/** Two relays that work, and one that forges, forgets and answers that it has nothing. */
async function startRelays({ scope, onNotice }: Stage): Promise<readonly string[]> {
  const lies = {
    forge: 0.1,
    postdate: 0.1,
    discard: 0.2,
    drop: 0.2,
    falseEose: 0.2,
    duplicate: 0.2,
  };
  const relays = [
    await createRelay(),
    await createRelay({ faults: lies, seed: 1 }),
    await createRelay(),
  ];
  for (const relay of relays) scope.defer(() => relay.close());
  const urls = relays.map(({ url }) => url);
  onNotice(`relays: ${urls.join(', ')}; the second one lies`);
  return urls;
}

/** Prints the verdict and returns whether all is well. */
function tellEnd(document: CertifiedDocument, { say }: Stage): boolean {
  const { agreed, rounds, faults, replay, workers, eventsFile, wallSeconds } = document;
  const isNamed = workers.every(
    ({ name, hostile }) => !hostile || faults.some(({ worker }) => worker === name),
  );
  for (const { kind, worker, round } of faults) say(`${worker}: ${kind} in ${roundName(round)}`);
  const root = `${rounds.at(-1)?.root.slice(0, 16)}…`;
  const seconds = wallSeconds.toFixed(0);
  say(
    agreed
      ? `all honest workers hold one root, ${root}, after ${rounds.length} rounds, ${seconds} s`
      : 'the honest workers do NOT agree',
  );
  say(
    replay.ok
      ? `the run replays: nostrain replay --events ${eventsFile}`
      : `the run does NOT replay from ${eventsFile}`,
  );
  return agreed && isNamed && replay.ok;
}
