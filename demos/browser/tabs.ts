/** The two tabs of `nostrain demo browser`: what their pages tell, and what they are asked to do. */
import { deferred } from '../../src/base/async.ts';
import type { FromWorker } from '../../src/browser/link.ts';
import { type OnEvent, parseLine } from '../shared/swarm.ts';

/** A tab as the demo knows it. */
export interface Tab {
  readonly name: string;
  /** As links say it. */
  readonly device: 'wasm' | 'auto';
  /** Is reloaded in the midst of this round, while it trains. */
  readonly reloadIn?: number;
}

export const tabs: readonly Tab[] = [
  { name: 'tab-wasm', device: 'wasm', reloadIn: 2 },
  { name: 'tab-gpu', device: 'auto' },
];

/** As the page of the run calls itself. */
const PAGE = 'page';

export type Ended = Extract<FromWorker, { readonly type: 'ended' | 'failed' }>;
export type Verified = Extract<FromWorker, { readonly type: 'verified' | 'failed' }>;

export interface TabWatch {
  /** What a page says, as text; the answer is what it shall do. */
  told(text: string): string;
  /** By tab, when it is over for it. */
  readonly ended: ReadonlyMap<string, Promise<Ended>>;
  /** When the page of the run, to which the tab that is through last goes, has replayed it. */
  readonly verified: Promise<Verified>;
  /** How often a tab was reloaded. */
  readonly reloads: number;
}

/** Hears the tabs. Told of somebody else, or of nothing that can be read, it does nothing. */
export function watchTabs(onEvent: OnEvent): TabWatch {
  const ends = new Map(tabs.map(({ name }) => [name, deferred<Ended>()] as const));
  const proof = deferred<Verified>();
  const over = new Set<string>();
  let reloads = 0;

  const take = (tab: Tab, message: FromWorker): string => {
    if (message.type === 'event') {
      onEvent(tab.name, message.event);
      const { event } = message;
      const isTraining = event.type === 'progress' && event.round >= (tab.reloadIn ?? Infinity);
      if (!isTraining || reloads > 0) return '';
      reloads += 1;
      onEvent(tab.name, { type: 'notice', message: 'its tab is reloaded while it trains' });
      return 'reload';
    }
    if (message.type === 'verified') return '';
    ends.get(tab.name)?.settle(message);
    over.add(tab.name);
    return message.type === 'ended' && over.size === tabs.length ? 'verify' : '';
  };

  /** The page of the run says only how its replay ended. */
  const tellProof = (message: FromWorker): void => {
    if (message.type === 'verified' || message.type === 'failed') proof.settle(message);
  };

  return {
    told: (text) => {
      const said = parseLine<Told>(text);
      if (said?.slot === PAGE) tellProof(said.message);
      const tab = tabs.find(({ name }) => name === said?.slot);
      return tab && said ? take(tab, said.message) : '';
    },
    ended: new Map([...ends].map(([name, { promise }]) => [name, promise])),
    verified: proof.promise,
    get reloads() {
      return reloads;
    },
  };
}

interface Told {
  readonly slot: string;
  readonly message: FromWorker;
}
