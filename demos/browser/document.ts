/** The JSON document of `nostrain demo browser`: where each worker ended, and what the tab proved. */
import type { WorkerId } from '../../src/run/ids.ts';
import type { EventLog, RoundEvent } from '../shared/document.ts';

export interface BrowserDocument {
  /** Every worker ended in one root, and all had one after every round. */
  readonly agreed: boolean;
  readonly rounds: readonly {
    readonly index: number;
    readonly outcome: 'final' | 'void';
    readonly root: string;
    /** Names of the workers whose contributions count. */
    readonly accepted: readonly string[];
    readonly signers: number;
    readonly seconds: number;
  }[];
  readonly workers: readonly {
    readonly name: string;
    readonly kind: 'tab' | 'node';
    readonly backend: 'wasm' | 'webgpu' | 'cpu' | '';
    readonly root: string;
    /** Rounds in which its work counts. */
    readonly counted: number;
  }[];
  /** The run page, opened in the browser of a tab, replayed the finished run and found the same root. */
  readonly verifiedInPage: boolean;
  /** How often a tab was reloaded while it trained. */
  readonly reloads: number;
  readonly wallSeconds: number;
}

export type BrowserCast = Pick<BrowserDocument['workers'][number], 'name' | 'kind'>;

interface End {
  /** The roots with which tabs ended, by name. */
  readonly ended: ReadonlyMap<string, string>;
  /** The root that the run page found by replaying; empty if it failed. */
  readonly proved: string;
  readonly reloads: number;
  readonly wallSeconds: number;
}

const BACKENDS = ['wasm', 'webgpu', 'cpu'] as const;

export function browserDocumentOf(
  log: EventLog,
  cast: readonly BrowserCast[],
  { ended, proved, reloads, wallSeconds }: End,
): BrowserDocument {
  const reported = log.inOrder();
  const lastRoot = (name: string): string =>
    ended.get(name) ??
    reported.findLast(([, by]) => by.get(name)?.certified)?.[1].get(name)?.certified?.root ??
    '';
  const names = new Map([...log.hellos].map(([name, { worker }]) => [worker, name] as const));
  const [root = '', ...others] = new Set(cast.map(({ name }) => lastRoot(name)));
  const isOne = others.length === 0 && root !== '';
  const rounds = reported.map(([index, by]) => roundRow(index, by, cast, names));
  const roots = (by: ReadonlyMap<string, RoundEvent>) =>
    new Set([...by.values()].flatMap(({ certified }) => certified?.root ?? []));
  return {
    agreed: isOne && reported.every(([, by]) => roots(by).size === 1),
    rounds,
    workers: cast.map(({ name, kind }) => ({
      name,
      kind,
      backend: BACKENDS.find((each) => each === log.hellos.get(name)?.device) ?? '',
      root: lastRoot(name),
      counted: rounds.filter(({ accepted }) => accepted.includes(name)).length,
    })),
    verifiedInPage: isOne && proved === root,
    reloads,
    wallSeconds,
  };
}

/** A round as the first worker of the cast that has its certificate reports it. */
function roundRow(
  index: number,
  reported: ReadonlyMap<string, RoundEvent>,
  cast: readonly BrowserCast[],
  names: ReadonlyMap<WorkerId, string>,
): BrowserDocument['rounds'][number] {
  const event = cast.map(({ name }) => reported.get(name)).find((each) => each?.certified);
  return {
    index,
    outcome: event?.certified?.result ?? 'void',
    root: event?.certified?.root ?? '',
    accepted: (event?.accepted ?? []).map((key) => names.get(key) ?? key).sort(),
    signers: event?.certified?.signers.length ?? 0,
    seconds: event?.seconds ?? 0,
  };
}
