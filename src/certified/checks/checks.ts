/**
 * Which contributions of a run can be checked by running their steps again, and everything that a check of each needs, out of the run's events alone.
 */
import type { Manifest } from '../../network/wire/manifests.ts';
import type { EventId, WorkerId } from '../../run/ids.ts';
import type { Outcome } from '../../run/outcome.ts';
import { isDrawn } from '../../run/rerun.ts';
import { type Certified, type Chain, withEntropy } from '../decisions/chain.ts';
import type { Evidence, Gathered } from '../decisions/evidence.ts';
import { hasModel, pathOf, replay, withoutModel } from '../decisions/replay.ts';
import type { CheckedRow, CheckReason } from './rerun.ts';

/** A contribution that the outcome of its round lists. */
export interface ListedRow {
  readonly round: number;
  readonly worker: WorkerId;
  readonly manifest: EventId;
  /** The randomness of the round after it drew it: its author shows its private state. */
  readonly drawn: boolean;
}

/** All of them, round by round, late ones left out. */
export function listedRows(start: Chain, events: Gathered): readonly ListedRow[] {
  const stops = [...pathOf(withoutModel(start), events).stops.values()];
  return stops.flatMap(({ chain, outcome }, i) => {
    const before = stops[i - 1]?.chain;
    if (outcome === undefined || before === undefined) return [];
    const ready = withEntropy(chain, events);
    const entropy = ready.ok ? ready.value.ledger.entropy : null;
    const { run, spec } = chain;
    const { round } = outcome;
    const rows = outcome.accepted.filter(({ late }) => !late);
    return rows.map(({ index, manifest }) => {
      const worker = before.ledger.members[index]!.key;
      const isAsked =
        entropy !== null && isDrawn({ run, round, worker, entropy }, spec.rerun.permille);
      return { round, worker, manifest, drawn: isAsked };
    });
  });
}

/** What a check of a contribution needs, or why there can be none. */
export interface Checkable {
  readonly listed: ListedRow;
  readonly row: CheckedRow | CheckReason;
}

/** A round that is over, as far as contributions to it are checked. */
export interface Kept {
  readonly state: Certified;
  readonly outcome: Outcome;
  readonly taken: Certified['taken'];
}

/**
 * These contributions in the order of their rounds, as the model is recomputed; it ends early where that is not possible. States of rounds that
 * nobody needs any more are let go of.
 */
export function* checkable(
  start: Certified,
  events: Gathered,
  wanted: readonly ListedRow[],
): Generator<Checkable, void, undefined> {
  const rows = wanted.map((listed) => ({ listed, ...manifestsOf(listed, events) }));
  const lastRound = Math.max(...wanted.map(({ round }) => round));
  const kept = new Map<number, Kept>();
  for (const { round, before, decided } of replay(start, events)) {
    if (!hasModel(before) || decided === undefined) return;
    const ended = kept.get(round - 1);
    if (ended) kept.set(round - 1, { ...ended, taken: before.taken });
    const ready = withEntropy(before, events);
    if (!ready.ok) return;
    const state = ready.value;
    for (const { listed, said, last } of rows) {
      if (listed.round !== round) continue;
      yield { listed, row: rowOf(state, said, last, kept, events) };
    }
    if (round >= lastRound) return;
    const open = rows.filter(({ listed }) => listed.round > round);
    const needed = new Set(open.map(({ last }) => last?.round));
    for (const old of kept.keys()) if (!needed.has(old)) kept.delete(old);
    if (needed.has(round)) kept.set(round, { state, outcome: decided.outcome, taken: undefined });
  }
}

type Sent = Pick<Evidence, 'message' | 'payload'>;

/** What a check of a contribution to a round that began with this state needs, with the rounds before it as far as they are known. */
export function checkedRow(
  listed: ListedRow,
  state: Certified,
  kept: ReadonlyMap<number, Kept>,
  events: Sent,
): CheckedRow | CheckReason {
  const { said, last } = manifestsOf(listed, events);
  return rowOf(state, said, last, kept, events);
}

/** The manifest of a contribution and the one that it names as the last before it, where they are here. */
function manifestsOf({ manifest, worker, round }: ListedRow, events: Sent) {
  const said = manifestBy(manifest, worker, events);
  const last = said?.prev === undefined ? undefined : manifestBy(said.prev, worker, events);
  return { said, last: last && last.round < round ? last : undefined };
}

function manifestBy(id: EventId, worker: WorkerId, events: Sent): Manifest | undefined {
  const message = events.message(id);
  const isOwn = message?.type === 'manifest' && message.manifest.worker === worker;
  return isOwn ? message.manifest : undefined;
}

function rowOf(
  state: Certified,
  manifest: Manifest | undefined,
  last: Manifest | undefined,
  kept: ReadonlyMap<number, Kept>,
  events: Sent,
): CheckedRow | CheckReason {
  const payload = manifest && events.payload(manifest);
  if (manifest === undefined || payload === undefined) return 'not-shown';
  const now = { state, manifest, payload };
  if (manifest.prev === undefined) return { ...now, last: undefined };
  const before = last && kept.get(last.round);
  const sent = last && events.payload(last);
  // on a branch that was left, or never sent
  if (!before || !sent || before.state.parent !== last.parent) return 'not-linked';
  return { ...now, last: { ...before, manifest: last, payload: sent } };
}
