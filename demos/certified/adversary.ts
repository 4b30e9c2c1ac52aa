/** Proxies of `nostrain demo certified` between a worker and its relays, which withhold its votes or add others. */
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

export interface Attack {
  /** From this round on, a second commit for an invented outcome is added to each commit. */
  readonly equivocateFrom?: number;
  /** Votes and proposals of these rounds are withheld from relays, and so are archived votes. */
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

/** Forwards frames in both directions, and applies the attack to the worker's events. */
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
    const withheldEvents = new Map<string, SignedEvent>();
    const say = (...message: unknown[]) => worker.send(JSON.stringify(message));
    worker.on('message', (data) => {
      const text = String(data);
      const query = withheldEventIn(text, withheldEvents);
      if (query) {
        say('EVENT', query.name, query.event);
        say('EOSE', query.name);
        return;
      }
      const { withheld, added } = tamper(text, signer, attack);
      if (withheld) {
        withheldEvents.set(withheld.id, withheld);
        say('OK', withheld.id, true, '');
      } else send(text);
      if (added !== undefined) send(JSON.stringify(['EVENT', added]));
    });
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Returns the withheld event that a query asks for, so that the worker believes its relays have it. */
function withheldEventIn(
  text: string,
  withheldEvents: ReadonlyMap<string, SignedEvent>,
): { readonly name: string; readonly event: SignedEvent } | undefined {
  if (withheldEvents.size === 0 || !text.startsWith('["REQ"')) return undefined;
  const [, name, filter] = JSON.parse(text);
  const event = withheldEvents.get(filter?.ids?.[0]);
  return event && { name, event };
}

interface Tampering {
  /** An event that is not forwarded but reported as accepted. */
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

/** Returns the round of archived votes, from their scope tag `<run>/<round>`. */
const copiedRound = ({ tags }: SignedEvent): number =>
  Number(tags.findLast(([name]) => name === 's')?.[1]?.split('/')[1]);

/** Returns a commit of the same key in the same round to an invented outcome. */
function twinOf({ kind, created_at, tags, content }: SignedEvent, signer: Signer): SignedEvent {
  const body = JSON.parse(content);
  const digest = sha256Hex(utf8(body.digest));
  return signer.sign({
    kind,
    created_at,
    tags: tags.map(([name, ...values]) => (name === 'x' ? ['x', digest] : [name!, ...values])),
    content: JSON.stringify({ ...body, digest }),
  });
}
