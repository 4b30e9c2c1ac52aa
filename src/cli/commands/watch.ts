/** `nostrain watch`: follows a certified run on a terminal, without a key: rounds, votes, missing workers. */

import { systemClock } from '../../base/async.ts';
import { ConfigError, safeJson } from '../../base/errors.ts';
import { formatBytes, formatLoss, formatShare } from '../../base/numbers.ts';
import { followRun } from '../../dashboard/follow-run.ts';
import type { OpenRoundPicture, RoundPicture, RunPicture } from '../../dashboard/run-picture.ts';
import { runOfLobby } from '../../node/friends/in-lobby.ts';
import { invitationIn } from '../../node/friends/join-line.ts';
import { nativeCrypto } from '../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../node/native/sha256.ts';
import { roundName, roundNumber } from '../../run/ids.ts';
import { called, shortName, withNames } from '../../run/worker-names.ts';
import { defineCommand } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { type FlagValues, severalOr, toggle } from '../../terminal/flag-table.ts';
import { createRepainter, writeNote, writeOut } from '../../terminal/output.ts';
import { beaconSource } from '../shared/beacon.ts';
import { endpointFlags } from '../shared/endpoints.ts';
import { privateRelaysFlag } from '../shared/member-flags.ts';
import { locateRun, withRelays } from '../shared/with-relays.ts';

const watchFlags = {
  relay: severalOr('those of the run', '<url>', 'relay to ask, repeatable'),
  allowPrivateRelays: privateRelaysFlag,
  once: toggle('print the current state and exit'),
  ndjson: toggle('print the full state as one JSON line whenever it changes'),
  ...connectionFlags,
  ...endpointFlags,
};

type WatchFlags = FlagValues<typeof watchFlags>;

export const watch = defineCommand({
  name: 'watch',
  help: 'follow a certified run live: rounds, votes, missing workers; needs no key',
  args: [['<run>', 'naddr1…, link, id, spec file or name of the run, or the line of its host']],
  flags: watchFlags,
  async run(flags, { args: [source], signal }) {
    const { relay, allowPrivateRelays } = flags;
    const options = { relays: relay.length > 0 ? relay : undefined, allowPrivateRelays };
    const connection = connectionOf(flags);
    const invitation = await invitationIn(source, options);
    const location = invitation
      ? await runOfLobby(invitation, { connection, signal, onNotice: writeNote })
      : await locateRun(source, options);
    if (location.relays.length === 0) {
      throw new ConfigError('flag/relay', 'no relay of this run is known', {
        hint: 'name its relays with --relay URL',
      });
    }
    const publicOnly = location.publicOnly ? { publicOnly: true } : {};
    const reach = { connection: { ...connection, ...publicOnly }, signal };
    await withRelays(
      location.relays,
      reach,
      ({ relays, signal }) =>
        new Promise<void>((resolve, reject) => {
          const { print, end } = createPrinter(flags);
          const stop = () => {
            end();
            reject(signal.reason);
          };
          signal.addEventListener('abort', stop, { once: true });
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
  },
});

/**
 * Prints the run, each decided round once, and the open round: on a terminal in one line that is repainted, elsewhere
 * in a line whenever it changes.
 */
function createPrinter({ ndjson, once }: WatchFlags) {
  const painter = createRepainter();
  const width = process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
  let isBegun = false;
  let printed = 0;
  let lastLine = '';
  const print = (picture: RunPicture): void => {
    if (!picture.isCaughtUp) return;
    if (ndjson) {
      writeOut(`${safeJson(picture)}\n`);
      return;
    }
    const names = namesIn(picture);
    const write = (line: string) => painter.write(withNames(line, names));
    if (!isBegun) write(headOf(picture, width));
    isBegun = true;
    const ready = picture.rounds.length - (isMeasured(picture) ? 0 : 1);
    for (const round of picture.rounds.slice(printed, ready)) write(roundLine(round, width));
    printed = Math.max(printed, ready);
    const now = picture.open ? openLine(picture.open) : endLine(picture);
    if (picture.open === undefined || once) {
      if (now !== lastLine) write(now);
    } else painter.repaint(withNames(now, names));
    lastLine = now;
    if (once) for (const line of workerLines(picture)) writeNote(line);
  };
  return { print, end: painter.end };
}

/** Digits of a run id on a narrow terminal. */
const SHORT_ID = 16;
/** Columns between two parts of a line. */
const SPACE = 2;

/**
 * Reports whether the loss of the newest round is known; it arrives with the next heartbeats, so its line waits for it.
 */
const isMeasured = ({ rounds, reports, open }: RunPicture): boolean =>
  !reports || open === undefined || rounds.at(-1)?.sharedLoss !== undefined;

function headOf({ name, model, planned, tier, run, lossUnit }: RunPicture, width: number): string {
  const words = (id: string) =>
    `${name}  ${model}, ${planned} rounds, ${tier} tier, run ${id}; losses are ${lossUnit}`;
  return words(run).length <= width ? words(run) : words(run.slice(0, SHORT_ID));
}

/** Formats a decided round. A loss that does not fit the width is left out; refusals and changes of the roster stay. */
function roundLine(round: RoundPicture, width: number): string {
  const { accepted, roster, signers, committee, sent, result } = round;
  const losses = [
    round.sharedLoss === undefined ? '' : `validation ${formatLoss(round.sharedLoss)}`,
    round.trainingLoss === undefined ? '' : `training ${formatLoss(round.trainingLoss)}`,
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
  const head = [
    `round ${String(roundNumber(round.round)).padStart(4)}  ${result.padEnd(5)}`,
    `${accepted.length} of ${roster.length} counted`,
    `${signers.length} of ${committee.length} signed`,
    formatBytes(sent.reduce((sum, { bytes }) => sum + bytes, 0)),
  ].join('  ');
  let left = width - head.length - (notes.length > 0 ? SPACE + notes.join(', ').length : 0);
  const fitting = losses.filter((words) => {
    const isFitting = words !== '' && SPACE + words.length <= left;
    if (isFitting) left -= SPACE + words.length;
    return isFitting;
  });
  return [head, ...fitting, notes.join(', ')].filter((each) => each !== '').join('  ');
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

const namesIn = ({ workers }: RunPicture): ReadonlyMap<string, string> =>
  new Map(workers.flatMap(({ worker, name }) => (name === undefined ? [] : [[worker, name]])));

const endLine = ({ rounds, planned }: RunPicture): string =>
  `over: ${rounds.length} of ${planned} rounds decided`;

const workerLines = ({ workers }: RunPicture): readonly string[] =>
  workers
    .filter(({ inRoster, isFaulted }) => inRoster || isFaulted)
    .map(({ worker, name, counted, sent, device = '', bytes, isAway, isFaulted }) => {
      const state = isFaulted ? 'expelled' : isAway ? 'silent' : 'present';
      const share = `${counted} of ${sent} counted`;
      return `${called(worker, name)}  ${state}  ${share}  ${formatBytes(bytes)}  ${device}`;
    });
