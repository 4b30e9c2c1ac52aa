import { readFile, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { sha256Hex, systemClock } from 'nostrain/base';
import {
  buildSnapshot,
  decisionsOf,
  encodeRunAddress,
  genesisOf,
  startOf,
} from 'nostrain/certified/parts';
import { createRelaySet, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { toNpub } from 'nostrain/node/parts';
import { createRelay } from 'nostrain/relay';
import { formatStakeJson, type StakeSnapshot, snapshotId, stakeRows } from 'nostrain/run';
import { describe, expect, it } from 'vitest';
import { toEvents } from '../../src/cli/shared/stake-refresh.ts';
import {
  certifiedSpec,
  foundersOf,
  type GeneratedRun,
  generateRun,
  signerOf,
} from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { publishRaw } from '../support/publish-raw.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const made = generateRun();
const inFolder = temporaryFolder();

const write = async (events: readonly SignedEvent[]): Promise<string> => {
  const file = inFolder('events.jsonl');
  await writeFile(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return file;
};

/** The round in an event. */
const roundOf = ({ content }: SignedEvent): number | undefined => {
  const round = /"round":(\d+)/.exec(content)?.[1];
  return round === undefined ? undefined : Number(round);
};

describe('nostrain replay --events', () => {
  it('recomputes a whole run and exits 0', async () => {
    const file = await write(made.events);
    const { exitCode, stdout } = await runCommand('replay', '--events', file);
    expect(exitCode, stdout).toBe(0);
    expect(stdout.split('\n').filter((line) => /^round .* full /.test(line))).toHaveLength(7);
    expect(stdout).toContain(made.state.modelRoot);
    expect(stdout).toContain('ok: 7 rounds, all recomputed in full');
  });

  it('reads an outcome in chunks, and names its round if a chunk is invalid', async () => {
    const run = generateRun(
      [{ wordy: true }, { leaves: [4] }, {}],
      certifiedSpec({ founders: foundersOf(12) }),
    );
    const whole = await runCommand('replay', '--events', await write(run.events));
    expect(whole.exitCode, whole.stdout).toBe(0);
    expect(whole.stdout).toContain('ok: 3 rounds, all recomputed in full');
    const broken = run.events.map((event) =>
      event.kind === 7811 ? { ...event, content: event.content.replace('A', 'B') } : event,
    );
    const { exitCode, stdout } = await runCommand('replay', '--events', await write(broken));
    expect(exitCode).toBe(1);
    expect(stdout).toContain(`round    2  not checked  missing: proposal ${run.rounds[1]!.digest}`);
    expect(stdout).toMatch(/line \d+ {2}BAD {2}the id is not the hash of the event {2}\(round 2\)/);
    expect(stdout).toContain('the first bad round is 2');
  });

  it('reports the same as JSON, whatever the order of the lines', async () => {
    const one = await runCommand('replay', '--events', await write(made.events), '--json');
    const reversed = await write([...made.events].reverse());
    const other = await runCommand('replay', '--events', reversed, '--json');
    expect(JSON.parse(one.stdout)).toEqual(JSON.parse(other.stdout));
    expect(JSON.parse(one.stdout)).toMatchObject({ ok: true, rounds: 7, firstBad: null });
  });

  it('detects any changed byte and names the round', async () => {
    const text = made.events.map((event) => `${JSON.stringify(event)}\n`);
    const anywhere = fc.record({
      line: fc.nat(text.length - 1),
      at: fc.nat(),
      bit: fc.nat(6),
    });
    await fc.assert(
      fc.asyncProperty(anywhere, async ({ line, at, bit }) => {
        const bytes = Buffer.from(text[line]!);
        const place = at % (bytes.length - 1);
        bytes[place] = bytes[place]! ^ (1 << bit);
        const file = inFolder('events.jsonl');
        await writeFile(
          file,
          Buffer.concat([...text.map((each, i) => (i === line ? bytes : Buffer.from(each)))]),
        );
        const { exitCode, stdout, stderr } = await runCommand('replay', '--events', file, '--json');
        expect(exitCode, stdout).not.toBe(0);
        const round = roundOf(made.events[line]!);
        // without its spec a run cannot be replayed; only the line is named
        if (made.events[line]!.kind === 37810) expect(stderr).toMatch(/line \d+/);
        else if (round !== undefined) expect(JSON.parse(stdout).firstBad).toBe(round);
      }),
      { numRuns: 12 },
    );
  });

  it('does not report success for a run with missing payloads', async () => {
    const lost = made.events.find((event) => event.kind === 7810 && roundOf(event) === 1)!;
    const file = await write(made.events.filter((event) => event !== lost));
    const { exitCode, stdout } = await runCommand('replay', '--events', file);
    expect(exitCode).not.toBe(0);
    expect(stdout).toContain(`model not checked, missing: event ${lost.id}`);
    expect(stdout).toContain('not checked in full: 1 of 7 rounds recomputed');
  });

  it('follows the better branch of a fork and names the other, or follows the chosen one', async () => {
    const many = generateRun([{}, {}, {}]);
    const few = generateRun([{}, { attempt: 1, balloting: [2, 3, 4] }, {}, {}]);
    const file = await write([...few.events, ...many.events]);
    const [ours, theirs] = [many.rounds[1]!.digest, few.rounds[1]!.digest];
    const rule = await runCommand('replay', '--events', file);
    expect(rule.exitCode, rule.stdout).toBe(0);
    expect(rule.stdout).toContain(`FORK: ${theirs} was also decided`);
    expect(rule.stdout).toContain(many.state.modelRoot);
    const told = await runCommand('replay', '--events', file, '--branch', few.rounds[3]!.digest);
    expect(told.exitCode, told.stdout).toBe(0);
    expect(told.stdout).toContain(`FORK: ${ours} was also decided`);
    expect(told.stdout).toContain(few.state.modelRoot);
    const pinned = await runCommand('replay', '--events', file, '--trust', few.rounds[3]!.digest);
    expect(pinned.stdout).toBe(told.stdout);
    const elsewhere = await runCommand('replay', '--events', file, '--trust', 'c'.repeat(64));
    expect(elsewhere.exitCode).toBe(1);
    expect(elsewhere.stdout).toContain('the outcome of --trust is not in this history');
    const wrong = await runCommand('replay', '--events', file, '--branch', 'abc');
    expect(wrong).toMatchObject({ exitCode: 2 });
    expect(wrong.stderr).toContain('--branch abc is not an outcome');
  });

  it('explains its arguments if there are none', async () => {
    const { exitCode, stderr } = await runCommand('replay');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('--events FILE');
  });
});

describe('nostrain explain --events', () => {
  it('says why', async () => {
    const file = await write(made.events);
    const worker = toNpub(signerOf(5).publicKey);
    const asked = ['explain', '--events', file, '--round', '5', '--worker', worker];
    const { exitCode, stdout } = await runCommand(...asked);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^Rejected: outcome [0-9a-f]{64} of round 5 lists manifest .* as base-mismatch\.\n$/,
    );
    const json = JSON.parse((await runCommand(...asked, '--json')).stdout);
    expect(json).toMatchObject({ round: 4, worker: signerOf(5).publicKey, counted: false });
  });

  it('takes the beginning of an npub, and lists all workers without one', async () => {
    const asked = ['explain', '--events', await write(made.events), '--round', '5'];
    const start = toNpub(signerOf(5).publicKey).slice(0, 12);
    const one = await runCommand(...asked, '--worker', start);
    const all = await runCommand(...asked);
    expect(all.exitCode, all.stderr).toBe(0);
    // one line per worker, with digests that fit it
    const short = one.stdout.split('\n')[0]!.replace(/([0-9a-f]{8})[0-9a-f]{56}/g, '$1');
    expect(all.stdout.split('\n')).toContain(`${start}  ${short}`);
    expect(all.stdout).toMatch(/^npub1\w{7} {2}Counted: outcome [0-9a-f]{8} of /m);
    const named = await runCommand('explain', made.run, ...asked.slice(1));
    expect(named).toEqual(all);
    const { round, workers } = JSON.parse((await runCommand(...asked, '--json')).stdout);
    expect(round).toBe(4);
    const { worker, counted, why } = workers.find((each: { worker: string }) => each.worker === signerOf(5).publicKey); // biome-ignore format: one line
    expect([worker, counted, why[0]]).toEqual([signerOf(5).publicKey, false, one.stdout.split('\n')[0]]); // biome-ignore format: one line
  });

  it('counts rounds from 1', async () => {
    const asked = ['explain', '--events', await write(made.events), '--worker', toNpub(signerOf(5).publicKey)]; // biome-ignore format: one line
    const none = await runCommand(...asked, '--round', '0');
    expect(none.exitCode).toBe(2);
    expect(none.stderr).toContain('--round is "0"; it must be a whole number from 1 to');
    const beyond = await runCommand(...asked, '--round', '8');
    expect(beyond.exitCode).toBe(2);
    expect(beyond.stderr).toContain('round 8 of the run is not in these events');
  });
});

let archives = 0;
/** Sends a run to a relay and archives it from there. */
async function archived(run: GeneratedRun, ...more: readonly string[]): Promise<string> {
  const relay = await createRelay();
  try {
    await publishRaw(relay.url, run.events);
    const out = inFolder(`run ${++archives}.jsonl`);
    const argv = ['archive', '--run', run.run, '--relay', relay.url, '--out', out, ...more];
    const { exitCode, stderr } = await runCommand(...argv);
    expect(exitCode, stderr).toBe(0);
    return out;
  } finally {
    await relay.close();
  }
}

const replayedFile = async (file: string) => {
  const { exitCode, stdout } = await runCommand('replay', '--events', file, '--json');
  return { exitCode, report: JSON.parse(stdout) };
};

describe('archived and replayed', () => {
  // worker 3 has no stake and never votes; worker 1 has most of it
  const rows = [1, 2, 4]
    .map((number) => ({ key: signerOf(number).publicKey, stake: number === 1 ? 900n : 200n }))
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const table: StakeSnapshot = {
    ...{ chain: 'nostrain:file', strategy: 'file', params: '{}', height: 0 },
    ...{ blockHash: '0'.repeat(64), unit: 'points', rows },
  };
  const spec = certifiedSpec({
    stake: { source: 'file', snapshot: snapshotId(table) },
    committee: { weights: 'stake' },
  });
  const life = { createdAt: 1_790_000_000, expiresAt: 2_500_000_000 };
  const event = signerOf(1).sign(buildSnapshot(table, life).draft);
  const staked = generateRun([{}, { absent: [3] }, {}], spec, [event]);

  it('a run whose seats are drawn by stake, with its snapshot', async () => {
    const { exitCode, report } = await replayedFile(await archived(staked));
    expect(exitCode).toBe(0);
    expect(report).toMatchObject({ ok: true, rounds: 3, modelRoot: staked.state.modelRoot });
    expect(report.lines.map(({ seats }: { readonly seats: number }) => seats)).toEqual([3, 3, 3]);
    const votes = staked.events.filter(({ kind }) => kind === 7813);
    expect(votes.some(({ pubkey }) => pubkey === signerOf(3).publicKey)).toBe(false);
  });

  it('the same if only a file has the snapshot; without it the replay says what is missing', async () => {
    const published = staked.events.filter((each) => each !== event);
    const bare = { ...staked, events: published };
    const file = inFolder('stakes.json');
    await writeFile(file, formatStakeJson(table));
    expect((await replayedFile(await archived(bare, '--stake', file))).report.ok).toBe(true);

    const out = await archived(bare);
    const without = await replayedFile(out);
    expect(without.exitCode).not.toBe(0);
    expect(without.report.lines).toMatchObject([
      { round: 0, checked: 'nothing', missing: [`snapshot ${snapshotId(table)}`] },
    ]);
    const helped = ['replay', '--events', out, '--stake', file, '--json'];
    expect((await runCommand(...helped)).exitCode).toBe(0);
  });

  it('a run whose snapshot is too large for an event: from relays, from its archive, and by a joining worker', async () => {
    const others = Array.from({ length: 2000 }, (_, i) => sha256Hex(Uint8Array.of(i, i >> 8)));
    const large: StakeSnapshot = {
      ...table,
      rows: stakeRows([
        ...table.rows.map(({ key, stake }) => [key, stake] as const),
        ...others.map((key) => [key, 1n] as const),
      ]),
    };
    const id = snapshotId(large);
    const spec = certifiedSpec({
      stake: { source: 'file', snapshot: id },
      committee: { weights: 'stake' },
    });
    const apart = toEvents(large);
    expect(apart.map(({ kind }) => kind)).toEqual([7811, 7811, 7811, 7816]);
    const run = generateRun([{}, {}], spec, apart);
    const relay = await createRelay();
    try {
      await publishRaw(relay.url, run.events);
      const out = inFolder('large.jsonl');
      const argv = ['archive', '--run', run.run, '--relay', relay.url, '--out', out];
      expect((await runCommand(...argv)).stdout).toContain(`${run.events.length} events`);
      const { exitCode, report } = await replayedFile(out);
      expect(exitCode).toBe(0);
      expect(report).toMatchObject({ ok: true, rounds: 2, modelRoot: run.state.modelRoot });

      const start = genesisOf(spec, startOf(spec));
      const relays = createRelaySet([relay.url], {
        openSocket,
        clock: systemClock,
        crypto: nativeCrypto,
      });
      const signal = new AbortController().signal;
      const { gathered } = await decisionsOf(spec, start, { relays, signal });
      await relays.close();
      expect(gathered.stakes(id)?.size).toBe(2003);

      const lines = (await readFile(out, 'utf8')).split('\n');
      await writeFile(out, lines.filter((line) => !line.includes(apart[1]!.id)).join('\n'));
      expect((await replayedFile(out)).report.lines).toMatchObject([
        { round: 0, checked: 'nothing', missing: [`snapshot ${id}`] },
      ]);
      const stakes = inFolder('large.json');
      await writeFile(stakes, formatStakeJson(large));
      const helped = ['replay', '--events', out, '--stake', stakes, '--json'];
      expect((await runCommand(...helped)).exitCode).toBe(0);
    } finally {
      await relay.close();
    }
  });

  it('a run with payloads in chunks; if one is missing the model is not checked', async () => {
    const training = { model: 'mlp', hidden: [300, 200], packing: 'int8' };
    const limits = { payloadBytes: 100_000 };
    const run = generateRun([{}, {}], certifiedSpec({ training, limits }));
    const chunks = run.events.filter(({ kind }) => kind === 7811);
    // four workers, two rounds, two chunks each
    expect(chunks).toHaveLength(16);
    const file = await archived(run);
    const { exitCode, report } = await replayedFile(file);
    expect(exitCode).toBe(0);
    expect(report).toMatchObject({ ok: true, rounds: 2, modelRoot: run.state.modelRoot });

    const lost = await write(run.events.filter((each) => each !== chunks[0]));
    const { report: partly } = await replayedFile(lost);
    expect(partly.ok).toBe(false);
    expect(partly.lines).toMatchObject([{ checked: 'chain' }, { checked: 'chain' }]);
  });
});

describe('nostrain archive', () => {
  it('takes relays from the address of the run; fails without the spec', async () => {
    const [relay, bare, empty] = await Promise.all([createRelay(), createRelay(), createRelay()]);
    try {
      await publishRaw(relay.url, made.events);
      await publishRaw(
        bare.url,
        made.events.filter(({ kind }) => kind !== 37810),
      );
      const { run, spec } = made;
      const naddr = (url: string) => encodeRunAddress({ run, author: spec.author, relays: [url] });
      const ask = (url: string, name: string) =>
        runCommand(
          ...['archive', '--run', naddr(url), '--allow-private-relays', '--out', inFolder(name)],
        );
      expect((await ask(relay.url, 'naddr.jsonl')).exitCode).toBe(0);
      const { exitCode, stdout, stderr } = await ask(bare.url, 'bare.jsonl');
      expect({ exitCode, stdout }).toEqual({
        exitCode: 1,
        stdout: expect.stringContaining('; no relay has the spec'),
      });
      expect(stderr).toContain(`no relay has the spec of run ${run}`);
      const nothing = await ask(empty.url, 'empty.jsonl');
      expect(nothing.stderr).toContain(
        `error (archive/empty): no relay has any event of run ${run}`,
      );
      const address = ['--run', naddr(relay.url), '--out', inFolder('private.jsonl')];
      expect((await runCommand('archive', ...address)).stderr).toContain('relay/private-hint');
    } finally {
      for (const each of [relay, bare, empty]) await each.close();
    }
  });

  it('writes what relays have, once, and adds new events when called again', async () => {
    const relay = await createRelay();
    try {
      const half = made.events.length - 40;
      await publishRaw(relay.url, made.events.slice(0, half));
      const out = inFolder('run.jsonl');
      const argv = ['archive', '--run', made.run, '--relay', relay.url, '--out', out];
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${half} events, ${half} new\n`);
      await publishRaw(relay.url, made.events.slice(half));
      const all = made.events.length;
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${all} events, 40 new\n`);
      const first = await readFile(out, 'utf8');
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${all} events, 0 new\n`);
      expect(await readFile(out, 'utf8')).toBe(first);
      expect(first.split('\n')[0]).toContain('"kind":37810');

      const file = await runCommand('replay', '--events', out, '--json');
      const asked = ['replay', '--run', made.run, '--relay', relay.url, '--json'];
      const { exitCode, stdout } = await runCommand(...asked);
      expect(exitCode).toBe(0);
      expect(JSON.parse(stdout)).toEqual(JSON.parse(file.stdout));
    } finally {
      await relay.close();
    }
  });
});
