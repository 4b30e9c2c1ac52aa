/**
 * The page of a tab that trains: starts its Web Worker, shows its reports as text, and tells it if the page is
 * visible.
 */
import type { Chosen, FromWorker, ToWorker } from '../link.ts';
import type { Name } from '../naming.ts';

const worker = new Worker(new URL('tab-worker.js', import.meta.url), { type: 'module' });
const tell = (message: ToWorker): void => worker.postMessage(message);

const at = (id: string): HTMLElement => {
  const found = document.getElementById(id);
  if (found === null) throw new TypeError(`the page has no ${id}`);
  return found;
};

const MOST_FILES = 100_000;

const MOST_LINES = 200;

/** Whatever it says came from relays: it is text, never HTML. */
function line(words: string): void {
  const item = document.createElement('li');
  item.textContent = words;
  const list = at('log');
  list.prepend(item);
  while (list.childElementCount > MOST_LINES) list.lastElementChild?.remove();
}

const show = (id: string, words: string): void => {
  at(id).textContent = words;
};

type TabEvent = Extract<FromWorker, { type: 'event' }>['event'];

function showEvent(event: TabEvent): void {
  switch (event.type) {
    case 'hello':
      show('worker', event.worker);
      show('device', `${event.device}, ${event.threads} thread${event.threads === 1 ? '' : 's'}`);
      show('round', `${event.round} of ${event.rounds} rounds are over`);
      break;
    case 'progress':
      show('step', `step ${event.step} of ${event.steps}, loss ${event.loss.toFixed(3)}`);
      break;
    case 'trained':
      line(`trained in ${event.seconds.toFixed(1)} s, loss ${event.loss.toFixed(3)}`);
      break;
    case 'round': {
      const { index, accepted, certified, validationLoss: loss, accuracy } = event;
      show('round', `${index + 1} rounds are over`);
      const shared = loss === undefined ? '' : `, shared loss ${loss.toFixed(3)}`;
      const right = accuracy === undefined ? '' : `, ${(100 * accuracy).toFixed(1)} % right`;
      const root = certified === undefined ? '' : `, root ${certified.root.slice(0, 16)}`;
      line(`${ordinal(index)} round: ${accepted.length} counted${shared}${right}${root}`);
      break;
    }
    case 'stalled':
      line(`a vote of the ${ordinal(event.round)} round waits for ${event.missing.length}`);
      break;
    case 'fault':
      line(`${event.worker.slice(0, 8)} broke the rules: ${event.kind}`);
      break;
    case 'notice':
      line(event.message);
      break;
  }
}

const ordinal = (index: number): string => `${index + 1}.`;

function hear(message: FromWorker): void {
  if (message.type === 'event') showEvent(message.event);
  else if (message.type === 'ended') {
    show('status', `the run is over after ${message.rounds} rounds; root ${message.root}`);
    at('verify').hidden = false;
  } else if (message.type === 'verified') {
    const { ok, rounds, root, seconds } = message;
    const words = ok ? 'every round is as a committee certified it' : 'something is wrong with it';
    show('proof', `${rounds} rounds replayed here in ${seconds.toFixed(1)} s: ${words}; ${root}`);
  } else {
    show('status', `${message.message}${message.hint === undefined ? '' : `. ${message.hint}`}`);
    at('one').hidden = message.code !== 'tab/corpus';
    at('many').hidden = message.code !== 'tab/pictures';
    if (message.code === 'tab/name') askName(message.draft);
  }
  if (isTelling) tellServer(message);
}

const asked = new URLSearchParams(location.hash.split('&').slice(1).join('&'));
/** `nostrain demo browser`: the server of this page hears what happens and may ask for something. */
const isTelling = asked.has('tell');
let told: Promise<void> = Promise.resolve();

function tellServer(message: FromWorker): void {
  told = told.then(async () => {
    const body = JSON.stringify({ slot: asked.get('slot'), message });
    const answer = await fetch('told', { method: 'POST', body }).catch(() => undefined);
    const wish = answer?.ok ? await answer.text() : '';
    if (wish === 'reload') location.reload();
    if (wish === 'verify') openRunPage();
  });
}

/** The page of the run, of the same server, replays what all of them made; it takes the place of this one. */
function openRunPage(): void {
  const [run = ''] = location.hash.slice(1).split('&');
  const named = new URLSearchParams({ run, verify: '', tell: '' });
  for (const relay of asked.getAll('relay')) named.append('relay', relay);
  location.assign(`./#${named}`);
}

interface BrowserSigner {
  signEvent(draft: unknown): Promise<unknown>;
}

const browserSigner = (): BrowserSigner | undefined =>
  (globalThis as { readonly nostr?: BrowserSigner }).nostr;

let toSign: unknown;

function askName(draft: unknown): void {
  toSign = draft;
  at('name').hidden = false;
  // extensions put it there once the page is loaded
  at('sign').hidden = browserSigner() === undefined;
}

function joinAs(name: Name): void {
  at('name').hidden = true;
  void join(undefined, name);
}

at('own').addEventListener('click', () => joinAs({ kind: 'own' }));
at('sign').addEventListener('click', () => {
  void browserSigner()
    ?.signEvent(toSign)
    .then(
      (event) => joinAs({ kind: 'signed', event }),
      (error: unknown) => show('status', `the signer refused: ${String(error)}`),
    );
});
at('name').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = at('bunker') as HTMLInputElement;
  const address = field.value;
  // it is good for one connection, and a secret key that was typed in all the same is not to stay there
  field.value = '';
  joinAs({ kind: 'bunker', address });
});

async function join(chosen?: Chosen, name?: Name): Promise<void> {
  const { hash, hostname: host } = location;
  show('status', 'joining');
  // asked for again by every tab; a browser that refuses may clear what it kept when storage is short
  await navigator.storage?.persist?.().catch(() => false);
  tell({ type: 'join', hash, host, chosen, name });
}

worker.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(data);
worker.onerror = ({ message }) => show('status', `the worker of this page ended: ${message}`);
at('file').addEventListener('change', ({ target }) => {
  const [file] = (target as HTMLInputElement).files ?? [];
  if (file) void join({ kind: 'file', file });
});
at('folder').addEventListener('change', ({ target }) => {
  // folder/class/picture.png; what lies elsewhere is no picture of a class
  const all = [...((target as HTMLInputElement).files ?? [])].map((file) => {
    const [folder = '', name = '', ...rest] = file.webkitRelativePath.split('/');
    return { folder, class: name, file, isPicture: rest.length === 1 && !name.startsWith('.') };
  });
  const files = all.filter(({ isPicture }) => isPicture).slice(0, MOST_FILES);
  const folder = all[0]?.folder;
  if (folder !== undefined) void join({ kind: 'folder', folder, files });
});
at('verify').addEventListener('click', () => tell({ type: 'verify' }));

/** A page that nobody sees may be suspended: where the run lets it say so, its worker then asks for no seat. */
function tellVisible(): void {
  const isVisible = document.visibilityState === 'visible';
  tell({ type: 'visible', isVisible });
  if (!isVisible) line('in the background: it trains on, and asks for no seat in committees');
}

document.addEventListener('visibilitychange', tellVisible);
tellVisible();
addEventListener('hashchange', () => location.reload());
void join();
