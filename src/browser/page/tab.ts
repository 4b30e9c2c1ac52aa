/** The page of a tab that trains: starts the Web Worker, shows its reports, and reports whether the page is visible. */
import { plural } from '../../base/numbers.ts';
import { shortName } from '../../run/worker-names.ts';
import type { BaseOffer, Chosen, FromWorker, ToWorker } from '../link.ts';
import type { Name } from '../naming.ts';

const worker = new Worker(new URL('tab-worker.js', import.meta.url), { type: 'module' });
const post = (message: ToWorker): void => worker.postMessage(message);

const at = (id: string): HTMLElement => {
  const element = document.getElementById(id);
  if (element === null) throw new TypeError(`the page has no ${id}`);
  return element;
};

/** Maximum number of pictures taken from a folder. */
const MOST_FILES = 100_000;

/** Maximum number of lines in the log. */
const MOST_LINES = 200;

/** Adds a line to the log, as text and never HTML, since it may come from relays. */
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
      show('device', `${event.device}, ${plural(event.threads, 'thread')}`);
      at('write').hidden = event.task !== 'pretrained';
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
      line(`${shortName(event.worker)} broke the rules: ${event.kind}`);
      break;
    case 'notice':
      line(event.message);
      break;
  }
}

/** Failures after which the button tries again; what was downloaded stays. */
const RETRIED: ReadonlySet<string> = new Set(['tab/base', 'tab/quota']);

const ordinal = (index: number): string => `${index + 1}.`;

/** Says before the download what will happen, how large it is and what it takes. */
function showOffer({ name, bytes, have, memory }: BaseOffer): void {
  const left = bytes - have;
  const download =
    left === 0
      ? `The model ${name} is already in this browser`
      : `It downloads ${megabytes(left)} once: the model ${name}, which stays in this browser`;
  show(
    'promise',
    `This tab will help to fine-tune a published language model. ${download}. ` +
      `Training takes about ${(memory / 1e9).toFixed(1)} GB of memory and one to four cores ` +
      'while the tab is open. ' +
      'It sends what it learned, signed with a key of this tab, and none of your files.',
  );
  at('offer').hidden = false;
}

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`;

function showDownload(have: number, of: number): void {
  at('loading').hidden = have >= of;
  const bar = at('loaded') as HTMLProgressElement;
  bar.max = of;
  bar.value = have;
  show('share', `${megabytes(have)} of ${megabytes(of)}`);
}

function receive(message: FromWorker): void {
  if (message.type === 'event') showEvent(message.event);
  else if (message.type === 'download') showDownload(message.have, message.of);
  else if (message.type === 'written') show(message.isTuned ? 'tuned' : 'untuned', message.text);
  else if (message.type === 'ended') {
    void keepAwake(false);
    show('status', `the run is over after ${message.rounds} rounds; root ${message.root}`);
    at('verify').hidden = false;
  } else if (message.type === 'verified') {
    const { ok, rounds, root, seconds } = message;
    const words = ok ? 'every round is as its committee certified it' : 'the replay does not match';
    show('proof', `${rounds} rounds replayed here in ${seconds.toFixed(1)} s: ${words}; ${root}`);
  } else {
    void keepAwake(false);
    if (message.offer !== undefined) showOffer(message.offer);
    else if (RETRIED.has(message.code)) at('offer').hidden = false;
    show('status', `${message.message}${message.hint === undefined ? '' : `. ${message.hint}`}`);
    at('one').hidden = message.code !== 'tab/corpus';
    at('many').hidden = message.code !== 'tab/pictures';
    if (message.code === 'tab/name') askName(message.draft);
  }
  if (isReporting) reportToServer(message);
}

const params = new URLSearchParams(location.hash.split('&').slice(1).join('&'));
/** Set by `nostrain demo browser`: the server of this page receives the messages and may reply with a command. */
const isReporting = params.has('tell');
let sending: Promise<void> = Promise.resolve();

function reportToServer(message: FromWorker): void {
  sending = sending.then(async () => {
    const body = JSON.stringify({ slot: params.get('slot'), message });
    const answer = await fetch('told', { method: 'POST', body }).catch(() => undefined);
    const wish = answer?.ok ? await answer.text() : '';
    if (wish === 'reload') location.reload();
    if (wish === 'write') writeBoth();
    if (wish === 'verify') openRunPage();
  });
}

function writeBoth(): void {
  const { value: prompt } = at('prompt') as HTMLInputElement;
  for (const isTuned of [true, false]) post({ type: 'write', prompt, isTuned });
}

/** Replaces this page by the run page of the same server, which replays the run. */
function openRunPage(): void {
  const [run = ''] = location.hash.slice(1).split('&');
  const named = new URLSearchParams({ run, verify: '', tell: '' });
  for (const relay of params.getAll('relay')) named.append('relay', relay);
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
  // extensions inject the signer once the page is loaded
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
  // the address is valid for one connection; a secret key typed in by mistake must not stay in the field
  field.value = '';
  joinAs({ kind: 'bunker', address });
});

async function join(chosen?: Chosen, name?: Name, isAccepted?: boolean): Promise<void> {
  const { hash, hostname: host } = location;
  show('status', 'joining');
  // without persistent storage the browser may delete the worker's data when disk space is low
  await navigator.storage?.persist?.().catch(() => false);
  void keepAwake(true);
  post({ type: 'join', hash, host, chosen, name, isAccepted });
}

worker.onmessage = ({ data }: MessageEvent<FromWorker>) => receive(data);
worker.onerror = ({ message }) => show('status', `the worker of this page ended: ${message}`);
at('file').addEventListener('change', ({ target }) => {
  const [file] = (target as HTMLInputElement).files ?? [];
  if (file) void join({ kind: 'file', file });
});
at('folder').addEventListener('change', ({ target }) => {
  // pictures are at folder/class/picture.png; other files are ignored
  const all = [...((target as HTMLInputElement).files ?? [])].map((file) => {
    const [folder = '', name = '', ...rest] = file.webkitRelativePath.split('/');
    return { folder, class: name, file, isPicture: rest.length === 1 && !name.startsWith('.') };
  });
  const files = all.filter(({ isPicture }) => isPicture).slice(0, MOST_FILES);
  const folder = all[0]?.folder;
  if (folder !== undefined) void join({ kind: 'folder', folder, files });
});
at('begin').addEventListener('click', () => {
  at('offer').hidden = true;
  void join(undefined, undefined, true);
});
at('write').addEventListener('submit', (event) => {
  event.preventDefault();
  writeBoth();
});
at('verify').addEventListener('click', () => post({ type: 'verify' }));

let lock: WakeLockSentinel | undefined;
let isAwake = false;

/** Keeps the screen on while the worker trains; browsers release the lock whenever the page is hidden. */
async function keepAwake(isWanted: boolean): Promise<void> {
  isAwake = isWanted;
  await lock?.release();
  lock = undefined;
  if (!isWanted || document.visibilityState !== 'visible') return;
  lock = await navigator.wakeLock?.request('screen').catch(() => undefined);
}

/** Share of the charge below which a tab on battery pauses. */
const LOW_CHARGE = 0.2;

interface Battery extends EventTarget {
  readonly charging: boolean;
  readonly level: number;
}

/** Pauses training while the battery is low and not charging. Browsers without a battery API never pause. */
async function watchBattery(): Promise<void> {
  const { getBattery } = navigator as { readonly getBattery?: () => Promise<Battery> };
  const battery = await getBattery?.call(navigator).catch(() => undefined);
  if (battery === undefined) return;
  let isPaused = false;
  const check = () => {
    const isLow = !battery.charging && battery.level < LOW_CHARGE;
    if (isLow === isPaused) return;
    isPaused = isLow;
    const charge = `${Math.round(100 * battery.level)} %`;
    const reason = isLow
      ? `paused: the battery is at ${charge}; training resumes when it is charged or plugged in`
      : undefined;
    post({ type: 'pause', reason });
  };
  battery.addEventListener('chargingchange', check);
  battery.addEventListener('levelchange', check);
  check();
}

/** Reports visibility to the worker: a hidden page may be suspended, so its worker then asks for no committee seat. */
function reportVisibility(): void {
  const isVisible = document.visibilityState === 'visible';
  post({ type: 'visible', isVisible });
  if (isVisible && isAwake) void keepAwake(true);
  if (!isVisible) line('in the background: keeps training, and asks for no committee seat');
}

document.addEventListener('visibilitychange', reportVisibility);
reportVisibility();
void watchBattery();
addEventListener('hashchange', () => location.reload());
void join();
