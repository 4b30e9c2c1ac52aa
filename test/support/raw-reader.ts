/** A plain WebSocket client for relay messages, to test a relay without the transport of `src/network`. */
import { WebSocket } from 'ws';

type Frame = readonly unknown[];

export interface RawReader {
  readonly frames: readonly Frame[];
  say(...message: readonly unknown[]): void;
  sendRaw(data: string | Uint8Array): void;
  /** The first frame, of those already here and those to come, that fits. */
  until(fits: (frame: Frame) => boolean): Promise<Frame>;
  /** Sends an EVENT and waits for its OK. */
  publish(event: { readonly id: string }): Promise<Frame>;
  readonly closed: Promise<number>;
  close(): Promise<number>;
}

export async function openReader(url: string): Promise<RawReader> {
  const ws = new WebSocket(url, { perMessageDeflate: false });
  const frames: Frame[] = [];
  let waiting: (() => void)[] = [];
  ws.on('message', (data) => {
    frames.push(JSON.parse(String(data)) as Frame);
    const wake = waiting;
    waiting = [];
    for (const resolve of wake) resolve();
  });
  const closed = new Promise<number>((resolve) => ws.on('close', resolve));
  await new Promise<void>((resolve, reject) => {
    ws.on('open', resolve);
    ws.on('error', reject);
  });
  const until = async (fits: (frame: Frame) => boolean): Promise<Frame> => {
    for (let at = 0; ; at++) {
      while (at >= frames.length) await new Promise<void>((resolve) => waiting.push(resolve));
      const frame = frames[at]!;
      if (fits(frame)) return frame;
    }
  };
  const say = (...message: readonly unknown[]) => ws.send(JSON.stringify(message));
  return {
    frames,
    say,
    sendRaw: (data) => ws.send(data),
    until,
    publish: (event) => {
      const from = frames.length;
      say('EVENT', event);
      return until((f) => f[0] === 'OK' && f[1] === event.id && frames.indexOf(f) >= from);
    },
    closed,
    close: () => {
      ws.terminate();
      return closed;
    },
  };
}
