/**
 * `nostrain demo certified`: seven workers that need not trust each other over three relays of which one lies. A witness is silent,
 * a worker is killed and comes back, another one votes twice, one sends the opposite of what it learned; in turn, so that a quorum can always be reached.
 */

import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Scope, withScope } from '../../src/base/scope.ts';
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import { startRelay } from '../../src/cli/commands/relay.ts';
import { publishOver } from '../../src/cli/shared/stake-refresh.ts';
import { roundName } from '../../src/run/round-name.ts';
import { canonicalSpec } from '../../src/run/spec/run-spec.ts';
import { formatStakeJson } from '../../src/run/stake/stake-json.ts';
import { onInterrupt } from '../../src/terminal/interrupt.ts';
import { asJson, writeNote, writeOut } from '../../src/terminal/output.ts';
import { createReporter, type Reporter } from '../../src/terminal/reporter.ts';
import { demoFolder, demoText } from '../shared/data.ts';
import { replayKept } from '../shared/replay-kept.ts';
import type { DemoFlags } from '../train/run.ts';
import { announce, crew, enlist, playCrew, relaysOf } from './crew.ts';
import { demoSpec } from './demo-spec.ts';
import { type CertifiedDocument, createCertifiedRecorder } from './document.ts';
import { demoStakes } from './stakes.ts';

/** Returns the exit code: 0 when all honest workers agree, whoever misbehaved was named, and the run replays. */
export const runCertifiedDemo = (flags: DemoFlags): Promise<number> =>
  withScope(async (scope) => {
    const startedMs = Date.now();
    const interrupt = onInterrupt();
    scope.defer(interrupt.dispose);
    const { signal } = interrupt;
    const mode = flags.json || flags.headless ? 'plain' : undefined;
    const stream = flags.json ? process.stderr : process.stdout;
    const names = crew.map(({ name }) => name);
    const reporter = createReporter(mode, { title: 'demo certified', workers: names, stream });
    scope.defer(() => reporter.close());
    const onNotice = (message: string) => reporter.notice(message);

    const dir = resolve(await demoFolder('certified', flags.dir, scope));
    const hands = await Promise.all(crew.map((member) => enlist(member.name, dir)));
    const relays = await startRelays(scope, reporter);
    const corpus = await demoText({ dir, corpus: flags.corpus, onNotice, signal });
    const stakes = await demoStakes(hands, { scope, signal, onNotice });
    const stakeFile = join(dir, 'stakes.json');
    await writeFile(stakeFile, formatStakeJson(stakes.snapshot));
    const spec = await demoSpec(hands, {
      stake: stakes.rule,
      corpus: corpus.file!,
      quick: flags.quick === true,
      seed: flags.seed,
      onNotice,
      signal,
    });
    const file = join(dir, 'run.json');
    await writeFile(file, canonicalSpec(spec));
    await announce(spec, hands[0]!, relays, signal);
    await publishOver(relays, stakes.snapshot, signal);

    const cast = crew.map(({ name, attack, flips = false }, i) => ({
      name,
      pubkey: hands[i]!.pubkey,
      hostile: flips || attack?.equivocateFrom !== undefined,
    }));
    const recorder = createCertifiedRecorder(cast);
    const onEvent = (name: string, event: RunEvent) => {
      recorder.take(name, event);
      reporter.event(name, event);
    };
    const exits = await playCrew(
      {
        dir,
        file,
        spec,
        corpus: corpus.file!,
        stakeFile,
        relays: await relaysOf(hands, relays, scope),
        keys: new Map(hands.map(({ name, pubkey }) => [name, pubkey])),
      },
      { onEvent, onNotice, signal },
    );
    signal.throwIfAborted();
    const { archive, eventsFile, report } = await replayKept(spec, relays, dir, signal);
    const document = recorder.document(archive.events, {
      replay: { ok: report.ok, rounds: report.rounds },
      eventsFile,
      wallSeconds: (Date.now() - startedMs) / 1000,
    });
    reporter.close();
    const failed = exits.filter(({ code }) => code !== 0);
    return tellEnd(document, failed, flags.json === true);
  });

/** Two that do what a relay does, and one that forges, forgets and says that it has nothing. */
async function startRelays(scope: Scope, reporter: Reporter): Promise<readonly string[]> {
  const local = { host: '127.0.0.1', port: 0 };
  const lies = {
    forge: 0.1,
    postdate: 0.1,
    discard: 0.2,
    drop: 0.2,
    falseEose: 0.2,
    duplicate: 0.2,
  };
  const relays = await Promise.all([
    startRelay(local),
    startRelay({ ...local, faults: lies, seed: 1 }),
    startRelay(local),
  ]);
  for (const relay of relays) scope.defer(() => relay.close());
  const urls = relays.map(({ url }) => url);
  reporter.notice(`relays: ${urls.join(', ')}; the second one lies`);
  return urls;
}

/** The verdict in words (or JSON), and the exit code. */
function tellEnd(
  document: CertifiedDocument,
  failed: readonly { readonly name: string; readonly code: number; readonly words: string }[],
  json: boolean,
): number {
  if (json) writeOut(asJson(document));
  const say = (line: string) => (json ? writeNote(line) : writeOut(`${line}\n`));
  for (const { name, code, words } of failed) say(`${name} failed (exit ${code}): ${words}`);
  const { agreed, rounds, faults, replay, workers, eventsFile, wallSeconds } = document;
  const isNamed = workers.every(
    ({ name, hostile }) => !hostile || faults.some(({ worker }) => worker === name),
  );
  for (const { kind, worker, round } of faults) say(`${worker}: ${kind} in ${roundName(round)}`);
  say(
    agreed
      ? `all honest workers hold one root, ${rounds.at(-1)?.root.slice(0, 16)}…, after ${rounds.length} rounds, ${wallSeconds.toFixed(0)} s`
      : 'the honest workers do NOT agree',
  );
  say(
    replay.ok
      ? `the run replays: nostrain replay --events ${eventsFile}`
      : `the run does NOT replay from ${eventsFile}`,
  );
  return agreed && isNamed && replay.ok && failed.length === 0 ? 0 : 1;
}
