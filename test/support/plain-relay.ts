/** A minimal relay for tests of relay bugs: it verifies nothing, and the test chooses its answers. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

export interface PlainEvent {
  readonly id: string;
  readonly kind: number;
  readonly pubkey: string;
  readonly tags: readonly (readonly string[])[];
}

export interface PlainRelay {
  readonly url: string;
  readonly events: readonly PlainEvent[];
  close(): Promise<void>;
}

export interface Habits {
  /** The OK for an event, or `hang-up`; undefined says nothing. */
  answer?(event: PlainEvent): readonly [boolean, string] | 'hang-up' | undefined;
  /** Whether an accepted event is brought for a filter, besides those asked for by id. */
  brings?(event: PlainEvent, filter: Readonly<Record<string, unknown>>): boolean;
  /** Deletes an event when it is this old, by the clock of `nowMs`. */
  readonly forgetMs?: number;
  nowMs?(): number;
  /** Its NIP-11 document. */
  readonly info?: unknown;
  /** Milliseconds its clock is ahead. */
  readonly aheadMs?: number;
}

export async function startPlainRelay(habits: Habits): Promise<PlainRelay> {
  const events: PlainEvent[] = [];
  const { forgetMs = Number.POSITIVE_INFINITY, nowMs = Date.now } = habits;
  const arrivedMs = new Map<string, number>();
  const isStored = ({ id }: PlainEvent) => nowMs() - arrivedMs.get(id)! < forgetMs;
  const server = createServer((_, response) => {
    const date = new Date(Date.now() + (habits.aheadMs ?? 0)).toUTCString();
    response.setHeader('Date', date).end(JSON.stringify(habits.info ?? {}));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (ws) => ws.on('message', (data) => read(ws, String(data))));

  function read(ws: WebSocket, text: string): void {
    const [verb, first, second] = JSON.parse(text) as [string, unknown, unknown];
    const say = (...message: readonly unknown[]) => ws.send(JSON.stringify(message));
    if (verb === 'EVENT') publish(ws, say, first as PlainEvent);
    if (verb !== 'REQ') return;
    const filter = second as { readonly ids?: readonly string[] };
    const found = events
      .filter(isStored)
      .filter((event) =>
        filter.ids ? filter.ids.includes(event.id) : (habits.brings?.(event, filter) ?? false),
      );
    for (const event of found) say('EVENT', first, event);
    say('EOSE', first);
  }

  function publish(ws: WebSocket, say: (...m: readonly unknown[]) => void, event: PlainEvent) {
    const answer = habits.answer ? habits.answer(event) : ([true, ''] as const);
    if (answer === 'hang-up') ws.close(1011, 'too much');
    if (answer === undefined || answer === 'hang-up') return;
    const [accepted, message] = answer;
    if (accepted) events.push(event);
    arrivedMs.set(event.id, nowMs());
    say('OK', event.id, accepted, message);
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    close: () =>
      new Promise((resolve) => {
        for (const ws of sockets.clients) ws.terminate();
        sockets.close();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
