/** The run page: reads the address, starts the background thread, and shows its results. */
import { formatBytes, formatLoss, formatShare } from '../base/numbers.ts';
import type { ReplayReport } from '../certified/records/replay-run.ts';
import type { RunPicture } from '../dashboard/run-picture.ts';
import type { EventDraft } from '../network/event.ts';
import { roundNumber } from '../run/ids.ts';
import type { Comment } from '../social/comments.ts';
import { type Address, readAddress, writeAddress } from './address.ts';
import { button, type Child, h, show } from './dom.ts';
import { shortHash } from './format.ts';
import { type FromJob, type ListedRun, openJob, type SplitNote } from './messages.ts';
import { nowView, refusedView, relaysView, workersView } from './views/people.ts';
import { lossView, reasonKey, roundView } from './views/rounds.ts';
import { commentsView, lineageView, splitView } from './views/social.ts';
import { notVerified, type Verification, verified, verifyView } from './views/verify.ts';

const at = <T extends HTMLElement = HTMLElement>(id: string): T => {
  const element = document.getElementById(id);
  if (element === null) throw new TypeError(`the page has no #${id}`);
  return element as T;
};

let picture: RunPicture | undefined;
/** Losses and samples from a run folder on this machine, if the page was opened from one. */
let local: RunPicture | undefined;
/** The selected round; undefined follows the newest. */
let chosen: number | undefined;
let verification: Verification = notVerified;
let comments: readonly Comment[] = [];
let notes: readonly SplitNote[] = [];
const reasons = new Map<string, readonly string[]>();
const job = openJob(receive);

function receive(message: FromJob): void {
  switch (message.type) {
    case 'picture':
      draw(withLocal(message.picture));
      break;
    case 'reading':
      say(`${message.have} events read`);
      break;
    case 'runs':
      drawRuns(message.runs, message.relays);
      break;
    case 'explained':
      reasons.set(reasonKey(message.round, message.worker), message.why);
      drawRound();
      break;
    case 'social':
      [comments, notes] = [message.comments, message.notes];
      drawSocial();
      break;
    case 'lineage':
      show(at('lineage'), ...lineageView(message, (run) => open({ ...address, run })));
      break;
    case 'drafted':
      void sign(message.draft);
      break;
    case 'posted':
      show(at('posted'), `posted on ${message.relays.join(', ')}`);
      break;
    case 'failed':
      fail(message.message, message.hint);
      reportToServer({
        type: 'failed',
        code: 'page',
        message: message.message,
        hint: message.hint,
      });
      if (verification.state !== 'done') verification = { ...verification, state: 'failed' };
      drawVerification();
      break;
    default:
      verification = verified(verification, message);
      drawVerification();
      if (message.type === 'verified') reportVerdict(message.report, message.seconds);
  }
}

/** Fills in losses and samples that are in the local run folder but not in the events. */
function withLocal(seen: RunPicture): RunPicture {
  if (local === undefined || local.run !== seen.run) return seen;
  const localRounds = new Map(local.rounds.map((each) => [each.round, each]));
  const rounds = seen.rounds.map((round) => {
    const fromFolder = localRounds.get(round.round);
    return {
      ...round,
      trainingLoss: round.trainingLoss ?? fromFolder?.trainingLoss,
      sharedLoss: round.sharedLoss ?? fromFolder?.sharedLoss,
      bitsPerByte: round.bitsPerByte ?? fromFolder?.bitsPerByte,
      accuracy: round.accuracy ?? fromFolder?.accuracy,
      sample: round.sample ?? fromFolder?.sample,
    };
  });
  return { ...seen, rounds };
}

function draw(next: RunPicture): void {
  const before = picture?.rounds.length;
  picture = next;
  at('run').hidden = false;
  at('chooser').hidden = true;
  show(at('problem'));
  document.title = `${next.name} · nostrain`;
  show(at('title'), next.name);
  show(at('subtitle'), factsOf(next));
  show(at('numbers'), ...numbersOf(next));
  show(at('now'), ...nowView(next));
  show(at('workers'), ...workersView(next));
  show(at('relays'), ...relaysView(next));
  show(at('refused'), ...refusedView(next));
  drawSocial();
  drawLoss();
  drawRound();
  if (before !== next.rounds.length) say(newsOf(next));
  const isWaiting = address.verify && verification.state === 'idle';
  if (isWaiting && next.isCaughtUp && next.rounds.length > 0) verify();
}

const factsOf = ({ model, tier, planned, innerSteps, run, open }: RunPicture): string =>
  [
    model,
    `${planned} rounds of ${innerSteps} steps`,
    `${tier} tier`,
    open === undefined ? 'over' : 'running',
    `run ${shortHash(run)}`,
  ].join(' · ');

function newsOf({ rounds, planned, isCaughtUp }: RunPicture): string {
  const last = rounds.at(-1);
  if (!isCaughtUp) return 'reading';
  if (last === undefined) return 'no round is decided yet';
  const measured =
    last.sharedLoss === undefined ? '' : `, validation loss ${formatLoss(last.sharedLoss)}`;
  const right = last.accuracy === undefined ? '' : `, ${formatShare(last.accuracy)} right`;
  return `round ${roundNumber(last.round)} of ${planned} is decided${measured}${right}`;
}

function numbersOf({ rounds, workers, planned, events }: RunPicture): readonly Child[] {
  const latest = (name: 'sharedLoss' | 'trainingLoss' | 'bitsPerByte' | 'accuracy') =>
    rounds.findLast((each) => each[name] !== undefined)?.[name];
  const [bits, right] = [latest('bitsPerByte'), latest('accuracy')];
  const sent = workers.reduce((sum, worker) => sum + worker.bytes, 0);
  const all: readonly (readonly [string, string])[] = [
    ['validation loss', formatLoss(latest('sharedLoss'))],
    ['training loss', formatLoss(latest('trainingLoss'))],
    ...(bits === undefined ? [] : [['bits per byte', formatLoss(bits)] as const]),
    ...(right === undefined ? [] : [['of validation pictures right', formatShare(right)] as const]),
    ['rounds decided', `${rounds.length} of ${planned}`],
    ['in the roster', `${workers.filter(({ inRoster }) => inRoster).length}`],
    ['payloads', formatBytes(sent)],
    ['events', `${events}`],
  ];
  return all.map(([name, value]) =>
    h('div', { class: 'number' }, h('span', { class: 'value' }, value), h('span', {}, name)),
  );
}

const drawLoss = (): void => {
  if (picture) show(at('loss'), ...lossView(picture, chosen, at('loss').clientWidth));
};

function drawRound(): void {
  const rounds = picture?.rounds ?? [];
  const slider = at<HTMLInputElement>('slider');
  at('travel').hidden = rounds.length === 0;
  if (rounds.length === 0) return;
  const index =
    chosen === undefined ? rounds.length - 1 : rounds.findIndex(({ round }) => round === chosen);
  const round = rounds[Math.max(0, index)]!;
  slider.max = String(rounds.length - 1);
  slider.value = String(Math.max(0, index));
  const words = `round ${roundNumber(round.round)} of ${picture!.planned}`;
  slider.setAttribute('aria-valuetext', words);
  show(at('round-name'), chosen === undefined ? `${words} (the newest)` : words);
  show(
    at('round'),
    ...roundView(round, reasons, (worker) =>
      job.say({ type: 'explain', worker, round: round.round }),
    ),
  );
}

function drawSocial(): void {
  if (picture === undefined) return;
  show(at('split'), ...splitView(picture, notes));
  show(at('comments'), ...commentsView(comments));
  // extensions inject the signer once the page is loaded
  at('announce').hidden = signerOfBrowser() === undefined || address.run === '';
}

interface BrowserSigner {
  signEvent(draft: unknown): Promise<unknown>;
}

const signerOfBrowser = (): BrowserSigner | undefined =>
  (globalThis as { readonly nostr?: BrowserSigner }).nostr;

/** Lets the signer of the browser (NIP-07) sign a draft, and sends the event to be checked and posted. */
async function sign(draft: EventDraft): Promise<void> {
  try {
    job.say({ type: 'post', event: await signerOfBrowser()?.signEvent(draft) });
  } catch (error) {
    show(at('posted'), `the signer refused: ${String(error)}`);
  }
}

function drawVerification(): void {
  const isChecking = ['gathering', 'checking'].includes(verification.state);
  const start = at<HTMLButtonElement>('verify');
  start.disabled = isChecking;
  show(start, isChecking ? 'Checking…' : 'Verify');
  show(at('verification'), ...verifyView(verification));
}

function verify(): void {
  verification = { ...notVerified, state: 'gathering' };
  drawVerification();
  job.say({ type: 'verify' });
}

const reportVerdict = ({ ok, rounds, modelRoot: root }: ReplayReport, seconds: number): void =>
  reportToServer({ type: 'verified', ok, rounds, root, seconds });

/** Reports to the server of this page, and no other, if the address asks for it (`nostrain demo browser`). */
function reportToServer(message: unknown): void {
  if (!address.tell) return;
  const body = JSON.stringify({ slot: 'page', message });
  void fetch('./told', { method: 'POST', body }).catch(() => undefined);
}

/** Lists the runs that relays have. */
function drawRuns(runs: readonly ListedRun[], relays: readonly string[]): void {
  at('chooser').hidden = false;
  const items = runs.map(({ run, name, model, rounds, parent }) =>
    h(
      'li',
      {},
      button(name, () => open({ ...address, run, relays: [...relays] })),
      ` ${model}, ${rounds} rounds, run ${shortHash(run)}`,
      parent && `, goes on from run ${shortHash(parent.run)} after ${parent.rounds} rounds`,
    ),
  );
  show(
    at('runs'),
    h('h2', {}, `${runs.length} runs on ${relays.join(', ')}`),
    runs.length === 0
      ? h('p', { class: 'empty' }, 'These relays have no run.')
      : h('ul', {}, ...items),
  );
  say(`${runs.length} runs`);
}

const say = (words: string): void => show(at('status'), words);

const fail = (message: string, hint: string): void =>
  show(
    at('problem'),
    h('p', { class: 'bad', role: 'alert' }, hint === '' ? message : `${message} (${hint})`),
  );

let address: Address = readAddress(location.hash);

function open(next: Address): void {
  address = next;
  [picture, chosen, verification] = [undefined, undefined, notVerified];
  [comments, notes] = [[], []];
  reasons.clear();
  drawVerification();
  show(at('problem'));
  show(at('runs'));
  show(at('lineage'));
  history.replaceState(null, '', writeAddress(next));
  at<HTMLInputElement>('run-field').value = next.run;
  at<HTMLInputElement>('relay-field').value = next.relays.join(' ');
  at('chooser').hidden = next.run !== '' || next.events !== '';
  if (next.local !== '') void openLocal(next.local);
  if (next.events !== '') void openServed(next);
  else if (next.run !== '' || next.relays.length > 0) {
    say('connecting');
    job.say({ type: 'open', source: { ...next, mayDialPrivate: isServedLocally() || isTyped } });
  }
}

/** The user typed the relays in; they do not come from a link. */
let isTyped = false;

/** Reports whether this machine serves the page, so that its user opened it. */
const isServedLocally = (): boolean =>
  /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);

/** Reports whether a name is a plain file name, so that no link can name another server. */
const isServedName = (name: string): boolean => /^[\w.-]{1,100}$/.test(name);

async function openServed({ events, run }: Address): Promise<void> {
  if (!isServedName(events)) return fail(`${events} is not a file name`, '');
  const response = await fetch(`./${events}`);
  if (!response.ok) return fail(`the server of this page has no file ${events}`, '');
  job.say({ type: 'open-archive', files: [await response.blob()], run });
}

async function openLocal(name: string): Promise<void> {
  if (!isServedName(name)) return;
  const response = await fetch(`./${name}`);
  if (!response.ok) return;
  local = (await response.json()) as RunPicture;
  if (picture !== undefined) draw(withLocal(picture));
  else if (address.run === '' && address.events === '') draw(local);
}

at<HTMLInputElement>('slider').addEventListener('input', ({ target }) => {
  const rounds = picture?.rounds ?? [];
  const index = Number((target as HTMLInputElement).value);
  chosen = index >= rounds.length - 1 ? undefined : rounds[index]?.round;
  drawRound();
  drawLoss();
});
at('verify').addEventListener('click', () => verify());
at('announce').addEventListener('click', () => {
  const { protocol, origin, pathname } = location;
  job.say({ type: 'draft', page: protocol === 'https:' ? origin + pathname : undefined });
});
at('open').addEventListener('submit', (event) => {
  event.preventDefault();
  isTyped = true;
  const run = at<HTMLInputElement>('run-field').value.trim();
  const relays = at<HTMLInputElement>('relay-field')
    .value.split(/[\s,]+/)
    .filter((url) => url !== '');
  open({ ...address, run, relays, events: '', local: '', verify: false, tell: false });
});
at('files').addEventListener('change', ({ target }) => {
  const files = [...((target as HTMLInputElement).files ?? [])];
  if (files.length > 0) job.say({ type: 'open-archive', files, run: '' });
});
window.addEventListener('resize', () => drawLoss());
window.addEventListener('hashchange', () => open(readAddress(location.hash)));
open(address);
