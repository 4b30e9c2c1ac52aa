/** The JSON document of `nostrain demo browser`: the result of each worker, and of the replay in a tab. */
import type { WorkerId } from '../../src/run/ids.ts';
import type { EventLog, RoundEvent } from '../shared/document.ts';

export interface BrowserDocument {
  /** All workers had the same root after every round. */
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
    /** Number of rounds in which its contribution counts. */
    readonly counted: number;
  }[];
  /** The run page, opened in the browser of a tab, replayed the finished run and found the same root. */
  readonly verifiedInPage: boolean;
  /** With --base: what the tab wrote at its end, with the shared adapters and with the base alone. */
  readonly texts?: { readonly tuned?: string; readonly base?: string } | undefined;
  /** How often a tab was reloaded during training. */
  readonly reloads: number;
  readonly wallSeconds: number;
}

export type BrowserCast = Pick<BrowserDocument['workers'][number], 'name' | 'kind'>;

interface End {
  /** Final roots of the tabs, by name. */
  readonly ended: ReadonlyMap<string, string>;
  /** The root that the run page found by replaying; empty if it failed. */
  readonly proved: string;
  readonly texts: BrowserDocument['texts'];
  readonly reloads: number;
  readonly wallSeconds: number;
}

const BACKENDS = ['wasm', 'webgpu', 'cpu'] as const;

export function browserDocumentOf(
  log: EventLog,
  cast: readonly BrowserCast[],
  { ended, proved, texts, reloads, wallSeconds }: End,
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
    ...(texts && { texts }),
    reloads,
    wallSeconds,
  };
}

/** Returns a round as reported by the first worker of the cast that has its certificate. */
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
