/** What `nostrain demo browser --json` says: who ended where, and what the tab proved. */
import type { RunEvent } from '../../src/certified/rounds/events.ts';
import type { WorkerId } from '../../src/run/ids.ts';

export interface BrowserDocument {
  /** Every worker ended in one root, and all had one after every round. */
  readonly agreed: boolean;
  readonly rounds: readonly {
    readonly index: number;
    readonly outcome: 'final' | 'void';
    readonly root: string;
    /** Whose work counts, by name. */
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

type RoundEvent = Extract<RunEvent, { type: 'round' }>;

interface Cast {
  readonly name: string;
  readonly kind: 'tab' | 'node';
}

export interface BrowserRecorder {
  take(name: string, event: RunEvent): void;
  /** The root in which a worker ended. */
  end(name: string, root: string): void;
  document(
    rest: Pick<BrowserDocument, 'reloads' | 'wallSeconds'> & { readonly proved: string },
  ): BrowserDocument;
}

const BACKENDS = ['wasm', 'webgpu', 'cpu'] as const;

/** Keeps what the workers say. The first one of the cast tells of the rounds. */
export function createBrowserRecorder(cast: readonly Cast[]): BrowserRecorder {
  const rounds = new Map<number, Map<string, RoundEvent>>();
  const names = new Map<WorkerId, string>();
  const backends = new Map<string, BrowserDocument['workers'][number]['backend']>();
  const ended = new Map<string, string>();
  const rootsOf = (said: ReadonlyMap<string, RoundEvent>) =>
    new Set([...said.values()].flatMap(({ certified }) => certified?.root ?? []));
  return {
    take(name, event) {
      if (event.type === 'hello') {
        names.set(event.worker, name);
        backends.set(name, BACKENDS.find((each) => each === event.device) ?? '');
      } else if (event.type === 'round') {
        const said = rounds.get(event.index) ?? new Map<string, RoundEvent>();
        rounds.set(event.index, said.set(name, event));
        if (event.certified) ended.set(name, event.certified.root);
      }
    },
    end: (name, root) => void ended.set(name, root),
    document({ proved, ...rest }) {
      const told = [...rounds].sort(([a], [b]) => a - b);
      const ends = new Set(cast.map(({ name }) => ended.get(name) ?? ''));
      const [root = ''] = ends;
      const isOne = ends.size === 1 && root !== '';
      const rows = told.map(([index, said]) => roundRow(index, said, cast, names));
      return {
        agreed: isOne && told.every(([, said]) => rootsOf(said).size === 1),
        rounds: rows,
        workers: cast.map(({ name, kind }) => ({
          name,
          kind,
          backend: backends.get(name) ?? '',
          root: ended.get(name) ?? '',
          counted: rows.filter(({ accepted }) => accepted.includes(name)).length,
        })),
        verifiedInPage: isOne && proved === root,
        ...rest,
      };
    },
  };
}

function roundRow(
  index: number,
  said: ReadonlyMap<string, RoundEvent>,
  cast: readonly Cast[],
  names: ReadonlyMap<WorkerId, string>,
): BrowserDocument['rounds'][number] {
  const event = cast.map(({ name }) => said.get(name)).find((each) => each?.certified);
  return {
    index,
    outcome: event?.certified?.result ?? 'void',
    root: event?.certified?.root ?? '',
    accepted: (event?.accepted ?? []).map((key) => names.get(key) ?? key).sort(),
    signers: event?.certified?.signers.length ?? 0,
    seconds: event?.seconds ?? 0,
  };
}
