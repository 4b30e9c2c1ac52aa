/** `nostrain watch`: follows a certified run on a terminal, without a key: rounds, votes, missing workers. */

import type { Command } from 'commander';
import { systemClock } from '../../base/async.ts';
import { ConfigError, safeJson } from '../../base/errors.ts';
import { formatBytes, formatLoss, formatShare } from '../../base/numbers.ts';
import { followRun } from '../../dashboard/follow-run.ts';
import type { OpenRoundPicture, RoundPicture, RunPicture } from '../../dashboard/run-picture.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import { shortName } from '../../run/worker-names.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import {
  commandWith,
  type FlagValues,
  several,
  toggle,
  withDefault,
} from '../../terminal/flag-table.ts';
import { interruptibly } from '../../terminal/interrupt.ts';
import { createRepainter, writeNote, writeOut } from '../../terminal/output.ts';
import { beaconSource } from '../shared/beacon.ts';
import { endpointFlags } from '../shared/endpoints.ts';
import { privateRelaysFlag } from '../shared/member-flags.ts';
import { locateRun, withRelays } from '../shared/with-relays.ts';

const watchFlags = {
  relay: withDefault(several('<url>', 'relay to ask, repeatable'), [], 'those of the run'),
  allowPrivateRelays: privateRelaysFlag,
  once: toggle('print the current state and exit'),
  ndjson: toggle('print the full state as one JSON line whenever it changes'),
  ...connectionFlags,
  ...endpointFlags,
};

type WatchFlags = FlagValues<typeof watchFlags>;

export const watch = (): Command =>
  commandWith(
    'watch',
    'follow a certified run live: rounds, votes, missing workers; needs no key',
    watchFlags,
  )
    .argument('<run>', 'run: naddr1…, a link, its id, a spec file, or its name on this machine')
    .action((source: string, flags: WatchFlags) =>
      interruptibly(async (signal) => {
        const { relay, allowPrivateRelays } = flags;
        const options = { relays: relay.length > 0 ? relay : undefined, allowPrivateRelays };
        const location = await locateRun(source, options);
        if (location.relays.length === 0) {
          throw new ConfigError('flag/relay', 'no relay of this run is known', {
            hint: 'name its relays with --relay URL',
          });
        }
        const publicOnly = location.publicOnly ? { publicOnly: true } : {};
        const reach = { connection: { ...connectionOf(flags), ...publicOnly }, signal };
        await withRelays(
          location.relays,
          reach,
          ({ relays, signal }) =>
            new Promise<void>((resolve, reject) => {
              const print = createPrinter(flags);
              signal.addEventListener('abort', () => reject(signal.reason), { once: true });
              followRun(location.run, {
                relays,
                clock: systemClock,
                signal,
                spec: location.spec,
                sha256: nativeSha256,
                crypto: nativeCrypto,
                onFailed: reject,
                beacon: (spec) => beaconSource(spec, flags),
                onPicture(picture) {
                  print(picture);
                  if (picture.isCaughtUp && (flags.once || picture.open === undefined)) resolve();
                },
              }).catch(reject);
            }),
        );
      }),
    );

/**
 * Prints the run, each decided round once, and the open round: on a terminal in one line that is repainted, elsewhere
 * in a line whenever it changes.
 */
function createPrinter({ ndjson, once }: WatchFlags): (picture: RunPicture) => void {
  const { write, repaint } = createRepainter();
  let printed = -1;
  let lastLine = '';
  return (picture) => {
    if (!picture.isCaughtUp) return;
    if (ndjson) {
      writeOut(`${safeJson(picture)}\n`);
      return;
    }
    if (printed < 0) write(headOf(picture));
    const ready = picture.rounds.length - (isMeasured(picture) ? 0 : 1);
    for (const round of picture.rounds.slice(Math.max(0, printed), ready)) {
      write(roundLine(round));
    }
    printed = Math.max(printed, ready);
    const now = picture.open ? openLine(picture.open) : endLine(picture);
    if (picture.open === undefined || once) {
      if (now !== lastLine) write(now);
    } else repaint(now);
    lastLine = now;
    if (once && printed >= 0) for (const line of workerLines(picture)) writeNote(line);
  };
}

/**
 * Reports whether the loss of the newest round is known; it arrives with the next heartbeats, so its line waits for it.
 */
const isMeasured = ({ rounds, reports, open }: RunPicture): boolean =>
  !reports || open === undefined || rounds.at(-1)?.sharedLoss !== undefined;

const headOf = ({ name, model, planned, tier, run, lossUnit }: RunPicture): string =>
  `${name}  ${model}, ${planned} rounds, ${tier} tier, run ${run}; losses are ${lossUnit}`;

function roundLine(round: RoundPicture): string {
  const { accepted, roster, signers, committee, sent, result } = round;
  const losses = [
    round.trainingLoss === undefined ? '' : `training ${formatLoss(round.trainingLoss)}`,
    round.sharedLoss === undefined ? '' : `validation ${formatLoss(round.sharedLoss)}`,
    round.bitsPerByte === undefined ? '' : `${round.bitsPerByte.toFixed(2)} bits/byte`,
    round.accuracy === undefined ? '' : `${formatShare(round.accuracy)} right`,
  ];
  const notes = [
    ...round.rejected.map(({ worker, reason }) => `refused ${shortName(worker)} (${reason})`),
    ...round.faults.map(({ worker, kind }) => `FAULT ${shortName(worker)} (${kind})`),
    ...round.joined.map((key) => `joined ${shortName(key)}`),
    ...round.left.map((key) => `left ${shortName(key)}`),
    ...(round.forks.length > 0 ? ['FORK'] : []),
  ];
  return [
    `round ${String(roundNumber(round.round)).padStart(4)}  ${result.padEnd(5)}`,
    `${accepted.length} of ${roster.length} counted`,
    `${signers.length} of ${committee.length} signed`,
    formatBytes(sent.reduce((sum, { bytes }) => sum + bytes, 0)),
    ...[...losses, notes.join(', ')].filter((each) => each !== ''),
  ].join('  ');
}

/** Formats the open round. Silent seats are named only once other members have voted. */
function openLine(open: OpenRoundPicture): string {
  const { sent, roster, prepared, committed, quorum, missing, attempt, view, lacks } = open;
  const isUnderWay = prepared.length + committed.length > 0 || view > 0 || attempt > 0;
  const extra = [
    attempt > 0 ? `recovery epoch ${attempt}` : '',
    view > 0 ? `view ${view}` : '',
    isUnderWay && missing.length > 0 ? `no votes from ${missing.map(shortName).join(', ')}` : '',
    lacks === undefined ? '' : `missing: ${lacks}`,
  ].filter((each) => each !== '');
  const votes = `${prepared.length} prepared, ${committed.length} of ${quorum} committed`;
  const contributions = `${sent.length} of ${roster.length} contributions`;
  const words = `${roundName(open.round)}: ${contributions}, ${votes}`;
  return [words, ...extra].join(', ');
}

const endLine = ({ rounds, planned }: RunPicture): string =>
  `over: ${rounds.length} of ${planned} rounds decided`;

const workerLines = ({ workers }: RunPicture): readonly string[] =>
  workers
    .filter(({ inRoster, isFaulted }) => inRoster || isFaulted)
    .map(({ worker, counted, sent, device = '', bytes, isAway, isFaulted }) => {
      const state = isFaulted ? 'expelled' : isAway ? 'silent' : 'present';
      const share = `${counted} of ${sent} counted`;
      return `${shortName(worker)}  ${state}  ${share}  ${formatBytes(bytes)}  ${device}`;
    });
