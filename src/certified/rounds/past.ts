/**
 * What decided each round, on this worker's own disk, and published again where relays have forgotten it: so that a run can be followed from
 * round 0 after all of its relays were replaced, as long as somebody who was there is left.
 */
import { fromBase64, toBase64 } from '../../base/bytes.ts';
import { stateBytes } from '../../consensus/roots.ts';
import { parseEvent } from '../../network/event.ts';
import type { WorkerId } from '../../run/ids.ts';
import { ledgerBytes } from '../../run/ledger.ts';
import { parseStakeJson } from '../../run/stake/stake-json.ts';
import type { Certified } from '../decisions/chain.ts';
import type { ProtocolMessage } from '../decisions/evidence.ts';
import { isPart, ringStates } from '../decisions/widths.ts';
import type { Refresh } from '../refresh.ts';
import type { Control } from '../wire/control.ts';
import type { Bundle } from '../wire/copies.ts';
import type { Reporter } from './events.ts';

/** A round that is over: what decided it, and who was in its roster. */
export interface PastRound extends Bundle {
  readonly round: number;
  /** Readers ask for copies by those: nobody else is known to them before they could follow the round. */
  readonly by: readonly WorkerId[];
  /** The table of stakes that counts from then on, as JSON, where it is another one. */
  readonly stakes?: string;
}

/** Where past rounds are kept. */
export interface PastStore {
  save(round: number, text: string): Promise<void>;
  /** Undefined where there is none. */
  load(round: number): Promise<string | undefined>;
}

/** The same with bodies in base64. */
type Written = Omit<PastRound, 'bodies'> & { readonly bodies: readonly string[] };

/** A table of stakes may have 15 MB; what decided a round has 8 MiB at most. */
const MOST_TEXT = 32 << 20;

/** A round as text for the disk. */
export const formatPast = ({ bodies, ...round }: PastRound): string =>
  JSON.stringify({ ...round, bodies: bodies.map((bytes) => toBase64(bytes)) });

/** A round again; undefined for what is none. The text is this worker's own; nobody else's is read. */
export function parsePast(text: string): PastRound | undefined {
  try {
    const { bodies, ...round } = JSON.parse(text) as Written;
    const opened = bodies.flatMap((each) => fromBase64(each) ?? []);
    const isOne = opened.length === bodies.length && round.by.length > 0;
    return isOne && round.events.every((each) => parseEvent(each).ok)
      ? { ...round, bodies: opened }
      : undefined;
  } catch {
    return undefined;
  }
}

/** So many others that keep a round are enough. */
const ENOUGH = 3;
/** What is published again in one round of the run: rounds that are looked at, and bytes. */
const MOST_LOOKED = 64;
const MOST_BYTES = 8 << 20;

interface Ports {
  readonly control: Pick<
    Control<ProtocolMessage>,
    'copy' | 'copiers' | 'publishSpec' | 'checkpoint'
  >;
  readonly refresh: Pick<Refresh, 'publish'>;
  readonly reporter: Reporter;
  readonly store: PastStore | undefined;
}

export class Past {
  readonly #ports: Ports;
  /** The round that is looked at next: one after the other, from the first on. */
  #next = 0;

  constructor(ports: Ports) {
    this.#ports = ports;
  }

  /** Never rejects. */
  async note(record: PastRound): Promise<void> {
    const { store, reporter } = this.#ports;
    const text = store && formatPast(record);
    if (!text || text.length > MOST_TEXT) return;
    await store.save(record.round, text).catch((error: unknown) => {
      reporter.unsaved(record.round, error instanceof Error ? error.message : String(error));
    });
  }

  /**
   * Looks whether relays still have what decided one of the rounds before this state, each in its turn. Where it is gone it is published again,
   * and so are those after it, within bounds. Never rejects.
   */
  async look(state: Certified, me: WorkerId): Promise<void> {
    const { control, reporter } = this.#ports;
    let bytes = 0;
    let rounds = 0;
    for (let i = 0; i < Math.min(MOST_LOOKED, state.round) && bytes < MOST_BYTES; i++) {
      const round = this.#next % state.round;
      this.#next = round + 1;
      const kept = await this.#load(round);
      if (!kept?.by.includes(me)) continue;
      const copiers = await control.copiers(round, kept.by);
      if (copiers === undefined) return;
      if (copiers.has(me) || copiers.size >= ENOUGH) {
        if (rounds === 0) return;
        continue;
      }
      await control.copy(round, kept);
      await this.#publishStakes(kept);
      bytes += formatPast(kept).length;
      rounds += 1;
    }
    if (rounds === 0) return;
    await control.publishSpec(state.spec);
    // after the last round nobody else does
    const isWhole = !isPart(state.spec, state.params.layout);
    if (isWhole && state.round >= state.spec.training.rounds)
      await publishState(state, [me], this.#ports);
    reporter.republished(state.round - 1, rounds);
  }

  async #load(round: number): Promise<PastRound | undefined> {
    // what cannot be read is not there
    const text = await this.#ports.store?.load(round).catch(() => undefined);
    return text === undefined ? undefined : parsePast(text);
  }

  async #publishStakes({ round, stakes }: PastRound): Promise<void> {
    const table = stakes === undefined ? undefined : parseStakeJson(stakes);
    if (table?.ok) await this.#ports.refresh.publish(round, table.value);
  }
}

/** Publishes a certified state together with the other keepers, so that who comes later need not compute it. */
export async function publishState(
  state: Certified,
  keepers: readonly WorkerId[],
  {
    control,
    reporter,
  }: Pick<Ports, 'reporter'> & { readonly control: Pick<Ports['control'], 'checkpoint'> },
): Promise<void> {
  const round = state.round - 1;
  const isKept = await control
    .checkpoint(
      {
        round,
        outcome: state.parent,
        modelRoot: state.modelRoot,
        ledgerRoot: state.ledgerRoot,
        model: ringStates(state.spec, state).map(stateBytes),
        ledger: ledgerBytes(state.ledger),
      },
      keepers,
    )
    .catch(() => false);
  if (!isKept) reporter.unkept(round);
}
