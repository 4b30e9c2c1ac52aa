/** Runs whose members hold chunks of checkpoints: each what placement gives it, newcomers get them from there, and nothing of it is believed. */
import { afterEach, describe, expect, it } from 'vitest';
import { createRelay } from '../../relay/server.ts';
import type { CheckpointChunks } from '../../src/certified/checkpoint-chunks.ts';
import type { PlaceReport } from '../../src/checkpoint/place-state.ts';
import { createRunChunks } from '../../src/node/checkpoint/run-chunks.ts';
import { type RunHolder, startRunHolder } from '../../src/node/checkpoint/run-holder.ts';
import type { RunSpec } from '../../src/run/run-spec.ts';
import { createLayout } from '../../src/tensor/params.ts';
import { certifiedSpec, noticesOf, startCertified } from '../support/certified-swarm.ts';
import { signerOf } from '../support/swarm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = temporaryFolder();
const opened: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const ROUNDS = 3;
/** A state of four chunks of a mebibyte, the last one shorter. */
const layout = createLayout([{ name: 'weights', shape: [410_000] }]);

interface Played {
  readonly spec: RunSpec;
  readonly relay: string;
  readonly holders: readonly RunHolder[];
  readonly told: string[];
  /** A newcomer to the run, and from where its checkpoint came. */
  join(index: number): Promise<{ round: number; notices: readonly string[]; from: readonly PlaceReport[] }>; // biome-ignore format: one line
}

interface Play {
  readonly placement: object;
  readonly places?: readonly string[];
  readonly room?: (index: number) => number;
  readonly founders?: number;
}

/** Founders who play a run to its end; each holds what placement gives it and serves it from then on. */
async function play({ placement, places = [], room, founders: count = 3 }: Play): Promise<Played> {
  const relay = await createRelay();
  opened.push(relay);
  const founders = Array.from({ length: count }, (_, i) => i);
  const document = { checkpoint: { every: 1, keep: 2 }, placement, ...(places.length > 0 && { places }) }; // biome-ignore format: one line
  const spec = certifiedSpec({ founders, rounds: ROUNDS, document });
  const told: string[] = [];
  const onNotice = (message: string) => void told.push(message);
  const holders: RunHolder[] = [];
  for (const index of founders) {
    const holder = await startRunHolder({
      ...{ policy: spec.placement!, signer: signerOf(index), folder: at(`held${index}`) },
      ...{ mostBytes: room?.(index) ?? 2 ** 30, keep: 2, port: 0, host: '127.0.0.1' },
      ...{ offer: { region: `region-${index}`, tier: 'open', weight: 1 }, allowPrivate: true },
      onNotice: (message) => onNotice(`${index}: ${message}`),
    });
    holders.push(holder);
    opened.push(holder);
  }
  const chunksOf = (
    index: number,
    more: Partial<Parameters<typeof createRunChunks>[0]>,
  ): CheckpointChunks =>
    // biome-ignore format: one line
    createRunChunks({
      ...{ places, policy: spec.placement, signer: signerOf(index), folder: at(`worker${index}`) },
      ...{ allowPrivate: true, onNotice, ...more },
    });
  const shared = { spec, relays: [relay.url], layout, trainMs: 50 };
  const members = founders.map((index) =>
    startCertified({
      ...{ ...shared, index, chunks: chunksOf(index, { holder: holders[index] }) },
      disk: { state: undefined, entry: undefined },
    }),
  );
  await Promise.all(members.map(({ finished }) => finished));
  await Promise.all(holders.map((holder) => holder.settled()));
  return {
    ...{ spec, relay: relay.url, holders, told },
    async join(index) {
      let from: readonly PlaceReport[] = [];
      const onFetched = (reports: readonly PlaceReport[]) => {
        from = reports;
      };
      const heard: string[] = [];
      const chunks = chunksOf(index, {
        onFetched,
        onNotice: (message) => void heard.push(message),
      });
      const newcomer = startCertified({ ...shared, index, chunks, looksForCheckpoint: true });
      const { round } = await newcomer.finished;
      return { round, notices: [...noticesOf(newcomer), ...heard], from };
    },
  };
}

const bytesFrom = (reports: readonly PlaceReport[], name: RegExp): number =>
  reports.filter((each) => name.test(each.name)).reduce((sum, { bytes }) => sum + bytes, 0);

describe('a run with a placement', () => {
  it('has each chunk of its checkpoints at two members in two regions, nothing more, and a newcomer gets them there', async () => {
    const placement = { objects: { checkpoint: { replicas: 2, min_distinct: { regions: 2 } } } };
    const { holders, join: joinRun, told } = await play({ placement });
    expect(told).toEqual([]);
    const counts = new Map<string, number>();
    const [digest] = [...holders[0]!.held().keys()].slice(-1);
    for (const holder of holders) {
      expect(holder.held().size).toBeLessThanOrEqual(2);
      for (const chunk of holder.held().get(digest!) ?? []) counts.set(chunk, (counts.get(chunk) ?? 0) + 1); // biome-ignore format: one line
    }
    expect([...counts.values()]).toEqual([2, 2, 2, 2]);
    const { round, from, notices } = await joinRun(3);
    expect(round).toBe(ROUNDS);
    expect(bytesFrom(from, /./)).toBe(8 * layout.size);
    expect(bytesFrom(from, /127/)).toBeGreaterThan(4 * layout.size);
    expect(notices.filter((words) => /place|checkpoint/.test(words))).toEqual([]);
  });
});
