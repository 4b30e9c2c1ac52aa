/** A run whose stakes are read from a chain again as it goes on: all change to the next table in the same round. */
import { afterEach, describe, expect, it } from 'vitest';
import { createRegistrySource } from '../../src/chain/evm/registry-source.ts';
import { publishOver } from '../../src/cli/stake/events.ts';
import { createRefreshPort } from '../../src/cli/stake/refresh-port.ts';
import { snapshotId, stakeOf } from '../../src/run/stake-snapshot.ts';
import type { RefreshPort } from '../../src/worker/certified/refresh.ts';
import { accessTo, hasAnvil, never, startAnvil, type TestChain } from '../support/anvil.ts';
import {
  certifiedRounds,
  certifiedSpec,
  keyOf,
  rootsOf,
  startCertified,
} from '../support/certified-swarm.ts';
import { historyOf, replayed } from '../support/replaying.ts';
import { createStage } from '../support/stage.ts';
import { smallLayout } from '../support/swarm.ts';

const chains: TestChain[] = [];
afterEach(async () => {
  await Promise.all(chains.splice(0).map((chain) => chain.stop()));
});
const { relay, start } = createStage(startCertified);

describe.skipIf(!hasAnvil)('a run that reads stakes again', { timeout: 120_000 }, () => {
  it('names the next table in its round, and draws by it two rounds later; who reaches no chain follows', async () => {
    const chain = await startAnvil();
    chains.push(chain);
    const registry = await chain.deploy();
    const bond = (index: number, value: bigint) => chain.bond(registry, index, keyOf(index), value);
    for (const index of [0, 1, 2]) await bond(index, 10n);
    await chain.mine(3);
    const place = { contract: registry.contract, from: registry.block };
    const schedule = { base: registry.block + 3, period: 5 };
    const source = createRegistrySource(accessTo([chain.endpoint]), place, schedule);
    const first = await source.snapshot(0, never);
    // the next blocks that count are between these, so that the next two tables differ
    await bond(0, 5n);
    await chain.mine(4);
    await bond(1, 7n);
    await chain.mine(8);
    const tables = await Promise.all([0, 1, 2].map((epoch) => source.snapshot(epoch, never)));
    const ids = tables.map(snapshotId);
    expect(new Set(ids).size).toBe(3);

    const { url } = await relay();
    const stake = { source: 'evm', snapshot: ids[0], period: schedule.period, every: 2 };
    const spec = certifiedSpec({
      ...{ founders: [0, 1, 2], rounds: 6 },
      document: { stake, committee: { weights: 'stake' } },
    });
    await publishOver([url], first, never);
    const shared = createRefreshPort(spec, {}, [url], never);
    expect(shared.derive).toBeUndefined();
    const access = accessTo([chain.endpoint]);
    const port = createRefreshPort(spec, { chain: access }, [url], never);
    // read before, so that nobody proposes while still reading
    const read = await Promise.all([1, 2].map((epoch) => port.derive!(epoch)));
    expect(read.map(snapshotId)).toEqual(ids.slice(1));
    const reading: RefreshPort = { ...port, derive: async (epoch) => read[epoch - 1]! };
    const members = [reading, reading, shared].map((refresh, index) =>
      start({ index, relays: [url], spec, refresh, trainMs: 300 }),
    );
    const states = await Promise.all(members.map(({ finished }) => finished));
    const roots = members.map(rootsOf);
    expect(roots[1]).toEqual(roots[0]);
    expect(roots[2]).toEqual(roots[0]);
    const results = certifiedRounds(members[0]!).map(({ certified }) => certified!.result);
    expect(results).toEqual(Array(6).fill('final'));
    // whoever reads the chain names the table of the round; who does not keeps the one there is
    const { rounds } = replayed(spec, smallLayout, await historyOf(url, spec));
    expect(rounds.map(({ checked }) => checked)).toEqual(Array(6).fill('full'));
    const named = rounds.map(({ decided }) => decided!.outcome);
    let holds = ids[0]!;
    for (const { round, proposer, snapshot } of named) {
      const isDue = round > 0 && round % 2 === 0 && proposer !== keyOf(2);
      if (isDue) holds = ids[round / 2]!;
      expect(snapshot).toBe(holds);
      expect(rounds[round]!.before.ledger.snapshot).toBe(named[round - 2]?.snapshot ?? ids[0]);
    }
    for (const { standing } of states) expect(standing!.ledger.nextSnapshot).toBe(holds);
    expect(stakeOf(tables[1]!).get(keyOf(0))).toBe(15n);
    expect(stakeOf(tables[2]!).get(keyOf(1))).toBe(17n);
  });
});
