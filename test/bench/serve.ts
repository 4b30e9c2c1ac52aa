/**
 * Measures `getRun` calls of `nostrain serve`: `npm run bench:serve [SECONDS]`. The server is this process, its client
 * another one; processor time is that of the server alone.
 */
import { fork } from 'node:child_process';
import { Agent, request } from 'node:http';
import { made, startApiServer, TOKEN } from '../support/api-server.ts';

const CONNECTIONS = 16;
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getRun', params: { run: made.run } });

/** Calls the server until time is up; returns the number of answers. */
async function callFor(url: string, seconds: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const headers = { authorization: `Bearer ${TOKEN}` };
  const until = Date.now() + 1000 * seconds;
  let answers = 0;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(url, { method: 'POST', agent, headers }, (response) => {
        if (response.statusCode === 200) answers += 1;
        response.resume().on('end', resolve);
      });
      sent.on('error', reject).end(body);
    });
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (Date.now() < until) await one();
    }),
  );
  agent.destroy();
  return answers;
}

if (process.send) {
  const [url = '', seconds = ''] = process.argv.slice(2);
  process.send(await callFor(url, Number(seconds)));
} else {
  const seconds = Number(process.argv[2] ?? 10);
  const server = await startApiServer();
  await server.call('getRun', { run: made.run });
  const before = process.cpuUsage();
  const client = fork(import.meta.filename, [server.url, String(seconds)]);
  const calls = await new Promise<number>((resolve) => client.once('message', resolve));
  const { user, system } = process.cpuUsage(before);
  const perCall = (user + system) / calls;
  console.log(`${(calls / seconds).toFixed(0)} getRun calls a second, ${perCall.toFixed(0)} µs of`);
  console.log(`processor time each: ${(1e6 / perCall).toFixed(0)} a second on one core`);
  await server.close();
}
