/** Proxies of `nostrain demo certified` between a worker and its relays: they withhold its votes or add other ones. */
import type { AddressInfo } from 'node:net';
import type { SignedEvent, Signer } from 'nostrain';
import { WebSocket, WebSocketServer } from 'ws';
import { archivedVotes } from '../../kinds/copies.ts';
import { proposal } from '../../kinds/proposal.ts';
import { vote } from '../../kinds/vote.ts';
import type { Scope } from '../../src/base/async.ts';
import { utf8 } from '../../src/base/bytes.ts';
import { sha256Hex } from '../../src/base/hash.ts';
import { parseEvent } from '../../src/network/event.ts';

/** What is done to the messages of one worker. */
export interface Attack {
  /** From this round on each commit gets a twin for an invented outcome. */
  readonly equivocateFrom?: number;
  /** Votes and proposals of these rounds never reach a relay, nor do their archived copies. */
  readonly silent?: { readonly from: number; readonly to: number };
}

/** Starts a proxy for each relay and returns their addresses. */
export const startAdversary = (
  relays: readonly string[],
  signer: Signer,
  attack: Attack,
  scope: Scope,
): Promise<readonly string[]> =>
  Promise.all(relays.map((relay) => startProxy(relay, signer, attack, scope)));

/** Passes frames on in both directions, except where the attack changes the worker's events. */
async function startProxy(
  relay: string,
  signer: Signer,
  attack: Attack,
  scope: Scope,
): Promise<string> {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await new Promise((resolve) => server.once('listening', resolve));
  scope.defer(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  server.on('connection', (worker) => {
    const upstream = new WebSocket(relay, { perMessageDeflate: false });
    const early: string[] = [];
    const send = (text: string) => {
      if (upstream.readyState === WebSocket.OPEN) upstream.send(text);
      else early.push(text);
    };
    upstream.on('open', () => {
      for (const text of early.splice(0)) upstream.send(text);
    });
    upstream.on('message', (data) => worker.send(String(data)));
    upstream.on('error', () => worker.close());
    upstream.on('close', () => worker.close());
    worker.on('close', () => upstream.close());
    const held = new Map<string, SignedEvent>();
    const say = (...message: unknown[]) => worker.send(JSON.stringify(message));
    worker.on('message', (data) => {
      const text = String(data);
      const asked = askedIn(text, held);
      if (asked) {
        say('EVENT', asked.name, asked.event);
        say('EOSE', asked.name);
        return;
      }
      const { withheld, added } = tamper(text, signer, attack);
      if (withheld) {
        held.set(withheld.id, withheld);
        say('OK', withheld.id, true, '');
      } else send(text);
      if (added !== undefined) send(JSON.stringify(['EVENT', added]));
    });
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A query for a withheld event: a worker that checks whether its relays keep its events finds it. */
function askedIn(
  text: string,
  held: ReadonlyMap<string, SignedEvent>,
): { readonly name: string; readonly event: SignedEvent } | undefined {
  if (held.size === 0 || !text.startsWith('["REQ"')) return undefined;
  const [, name, filter] = JSON.parse(text);
  const event = held.get(filter?.ids?.[0]);
  return event && { name, event };
}

interface Tampering {
  /** The event that is not passed on and yet called accepted. */
  readonly withheld?: SignedEvent;
  readonly added?: SignedEvent;
}

function tamper(text: string, signer: Signer, { equivocateFrom, silent }: Attack): Tampering {
  if (!text.startsWith('["EVENT"')) return {};
  const parsed = parseEvent(JSON.parse(text)[1]);
  if (!parsed.ok) return {};
  const { kind, content } = parsed.value;
  const isSilent = (round: number) => silent && round >= silent.from && round <= silent.to;
  if (kind === archivedVotes.kind && isSilent(copiedRound(parsed.value)))
    return { withheld: parsed.value };
  if (kind !== vote.kind && kind !== proposal.kind) return {};
  const { round, step } = JSON.parse(content);
  if (isSilent(round)) return { withheld: parsed.value };
  const isTwinned =
    equivocateFrom !== undefined &&
    round >= equivocateFrom &&
    kind === vote.kind &&
    step === 'commit';
  return isTwinned ? { added: twinOf(parsed.value, signer) } : {};
}

/** The round whose events a copy holds: the last part of its place, `<run>/<round>`. */
const copiedRound = ({ tags }: SignedEvent): number =>
  Number(tags.findLast(([name]) => name === 's')?.[1]?.split('/')[1]);

/** A commit of the same key for the same round to an outcome that does not exist. */
function twinOf({ kind, created_at, tags, content }: SignedEvent, signer: Signer): SignedEvent {
  const said = JSON.parse(content);
  const digest = sha256Hex(utf8(said.digest));
  return signer.sign({
    kind,
    created_at,
    tags: tags.map(([name, ...values]) => (name === 'x' ? ['x', digest] : [name!, ...values])),
    content: JSON.stringify({ ...said, digest }),
  });
}
