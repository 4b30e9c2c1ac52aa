/** What a worker reports, as numbers for OpenMetrics scrapers: a fold over its events, and a small server that shows the result. */
import { createServer } from 'node:http';
import type { RunEvent } from '../../certified/rounds/events.ts';
import { listen, type PageServer } from './page-server.ts';

interface Family {
  readonly type: 'gauge' | 'counter';
  readonly help: string;
}

const FAMILIES = {
  parameters: { type: 'gauge', help: 'Parameters of the model.' },
  round: { type: 'gauge', help: 'Number of the round this worker is in, from 1.' },
  rounds_planned: { type: 'gauge', help: 'Rounds of the run.' },
  rounds: { type: 'counter', help: 'Rounds this worker has finished.' },
  void_rounds: { type: 'counter', help: 'Certified rounds that counted nothing.' },
  training_loss: { type: 'gauge', help: 'Mean training loss of the last inner steps.' },
  validation_loss: { type: 'gauge', help: 'Loss of the shared model on data nobody trains on.' },
  bits_per_byte: { type: 'gauge', help: 'The same per byte of text, in bits.' },
  accuracy: { type: 'gauge', help: 'Share of held-out pictures that the shared model has right.' },
  tokens_per_second: { type: 'gauge', help: 'Tokens or examples a second in training.' },
  accepted: { type: 'gauge', help: 'Contributions that the last round counted.' },
  payload_bytes: { type: 'gauge', help: 'Largest payload of the last round.' },
  round_seconds: { type: 'gauge', help: 'Wall time of the last round.' },
  waiting_seconds: { type: 'gauge', help: 'Seconds of it spent waiting for others.' },
  sent_bytes: { type: 'counter', help: 'Bytes of events of this worker that relays took.' },
  refused: { type: 'counter', help: 'Events that did not count, by reason.' },
  stalls: { type: 'counter', help: 'Views of certified rounds without a decision.' },
  faults: { type: 'counter', help: 'Workers proven to have broken the rules.' },
  missing: { type: 'gauge', help: 'Workers that the last stall did not hear of.' },
} as const satisfies Readonly<Record<string, Family>>;

type Name = keyof typeof FAMILIES;

/** Reasons are a fixed list of ours, so labels cannot grow without end. */
export class Metrics {
  readonly #values = new Map<Name, Map<string, number>>();
  /** The furthest round that was finished. */
  #last = -1;

  take(event: RunEvent): void {
    switch (event.type) {
      case 'hello':
        this.#set('parameters', event.parameters);
        this.#set('rounds_planned', event.rounds);
        this.#set('round', event.round + 1);
        break;
      case 'progress':
        this.#set('round', event.round + 1);
        this.#set('tokens_per_second', event.tokensPerSecond);
        break;
      case 'trained':
        this.#set('training_loss', event.loss);
        break;
      case 'published':
        this.#add('sent_bytes', event.eventBytes);
        break;
      case 'refused':
        this.#add('refused', 1, event.reason);
        break;
      case 'stalled':
        this.#add('stalls', 1);
        this.#set('missing', event.missing.length);
        break;
      case 'fault':
        this.#add('faults', 1);
        break;
      case 'round':
        this.#round(event);
        break;
      default:
    }
  }

  /** The text that scrapers read. */
  text(): string {
    const families = Object.entries(FAMILIES).map(([name, { type, help }]) => {
      const full = `nostrain_${name}`;
      const lines = [...(this.#values.get(name as Name) ?? [])].map(([reason, value]) => {
        const label = reason === '' ? '' : `{reason="${reason}"}`;
        return `${full}${type === 'counter' ? '_total' : ''}${label} ${value}\n`;
      });
      return `# TYPE ${full} ${type}\n# HELP ${full} ${help}\n${lines.join('')}`;
    });
    return `${families.join('')}# EOF\n`;
  }

  #round(event: Extract<RunEvent, { type: 'round' }>): void {
    if (event.index > this.#last) this.#add('rounds', 1);
    this.#last = Math.max(this.#last, event.index);
    if (event.certified?.result === 'void') this.#add('void_rounds', 1);
    this.#set('round', event.index + 2);
    this.#set('training_loss', event.trainingLoss);
    this.#set('validation_loss', event.validationLoss);
    this.#set('bits_per_byte', event.bitsPerByte);
    this.#set('accuracy', event.accuracy);
    this.#set('accepted', event.accepted.length);
    this.#set('payload_bytes', event.payloadBytes);
    this.#set('round_seconds', event.seconds);
    this.#set('waiting_seconds', event.secondsWaiting);
    this.#set('missing', 0);
  }

  #set(name: Name, value: number | undefined): void {
    if (value !== undefined && Number.isFinite(value))
      this.#values.set(name, new Map([['', value]]));
  }

  #add(name: Name, more: number, reason = ''): void {
    const values = this.#values.get(name) ?? new Map<string, number>();
    values.set(reason, (values.get(reason) ?? 0) + more);
    this.#values.set(name, values);
  }
}

const TYPE = 'application/openmetrics-text; version=1.0.0; charset=utf-8';

/** Shows them at `/metrics` on this machine until closed; throws `metrics/listen` where the port is taken. */
export async function serveMetrics(metrics: Metrics, port: number): Promise<PageServer> {
  const server = createServer(({ url, method }, response) => {
    const isThere = method === 'GET' && url === '/metrics';
    response.writeHead(isThere ? 200 : 404, { 'content-type': isThere ? TYPE : 'text/plain' });
    response.end(isThere ? metrics.text() : 'numbers are at /metrics\n');
  });
  const { url, close } = await listen(
    server,
    { host: '127.0.0.1', port },
    'metrics/listen',
    '--metrics',
  );
  return { url: `${url}metrics`, close };
}
