/**
 * `npm run bench:directory`: what it costs to find three holders of an object over relays (one filter) and between holder servers (XOR hops), by the
 * number of holders; counted in simulated networks, with the lengths of real signed events.
 */
import { buildHolder, createSigner } from 'nostrain/network';
import { createNetwork, idOf, recordOf } from '../support/directory.ts';

const LOOKUPS = 100;
const HELD = 4;
const RELAYS = 3;
/** Events that a relay gives for one filter. */
const PER_FILTER = 500;

const eventBytes = (() => {
  const offer = {
    ...{ region: 'europe', tier: 'known', weight: 4, classes: ['checkpoint'], freeBytes: 2 ** 36 },
    contacts: ['https://holder.example.org:8790'],
    held: Array.from({ length: HELD }, (_, i) => idOf(`held ${i}`)),
  };
  const signed = createSigner(new Uint8Array(32).fill(1)).sign(buildHolder(offer, 1.8e9, 3600));
  return JSON.stringify(signed).length + 1;
})();

async function row(count: number, deadShare: number): Promise<string> {
  const objects = Array.from({ length: LOOKUPS }, (_, i) => idOf(`object ${i}`));
  const held = Array.from({ length: count }, (): string[] => []);
  objects.forEach((object, i) => {
    for (const step of [0, 1, 2, 3, 4]) held[(i * 7 + step * 23) % count]!.push(object);
  });
  const records = held.map((own, i) => recordOf(`holder ${i}`, own));
  const network = await createNetwork(records);
  const joining = network.asks / count;
  records.forEach(({ key }, i) => {
    if ((i * 7) % 10 < 10 * deadShare) network.dead.add(key);
  });
  const alive = records.filter(({ key }) => !network.dead.has(key));
  let [asks, hops, bytes, most, found, possible] = [0, 0, 0, 0, 0, 0];
  const perHolder = new Map<string, number>();
  for (const [i, object] of objects.entries()) {
    const there = alive.filter((each) => each.held.includes(object)).length;
    const from = [0, 1, 2].map((step) => alive[(i * 13 + step * 37) % alive.length]!);
    const before = network.ask;
    network.ask = async (contact, target) => {
      perHolder.set(contact.key, (perHolder.get(contact.key) ?? 0) + 1);
      const answer = await before(contact, target);
      bytes += (answer?.length ?? 0) * eventBytes;
      return answer;
    };
    const result = await network.find(object, from);
    network.ask = before;
    asks += result.asks;
    hops += result.hops;
    most = Math.max(most, result.hops);
    found += Math.min(3, result.holders.length);
    possible += Math.min(3, there);
  }
  const mean = (sum: number) => (sum / LOOKUPS).toFixed(1);
  const busiest = Math.max(...perHolder.values());
  const one = RELAYS * 5 * eventBytes;
  const pages = Math.ceil(count / PER_FILTER);
  return `| ${[
    count,
    `${100 * deadShare} %`,
    mean(asks),
    `${mean(hops)} (${most})`,
    `${(bytes / LOOKUPS / 1024).toFixed(1)} KiB`,
    `${((100 * found) / possible).toFixed(0)} %`,
    busiest,
    joining.toFixed(1),
    `${RELAYS} / ${(one / 1024).toFixed(1)} KiB`,
    `${RELAYS * pages} / ${((RELAYS * count * eventBytes) / 1024).toFixed(0)} KiB`,
  ].join(' | ')} |`;
}

console.log(`an announcement with ${HELD} objects: ${eventBytes} bytes`);
console.log('| holders | dead | asks | hops (most) | bytes | found | asks of the busiest | asks to join | relays, by object | relays, all holders |'); // biome-ignore format: one line
for (const count of [64, 250, 1000, 2000]) {
  console.log(await row(count, 0));
  console.log(await row(count, 0.3));
}
