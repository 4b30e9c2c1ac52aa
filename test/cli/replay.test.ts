import { readFile, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRelay } from '../../relay/server.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { SignedEvent } from '../../src/network/event.ts';
import { createRelaySet } from '../../src/network/transport/relay-set.ts';
import { toNpub } from '../../src/node/keys.ts';
import { openSocket } from '../../src/node/sockets.ts';
import { generateRun, signerOf } from '../support/certified-run.ts';
import { runCommand } from '../support/command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const made = generateRun();
const inFolder = temporaryFolder();

const write = async (events: readonly SignedEvent[]): Promise<string> => {
  const file = inFolder('events.jsonl');
  await writeFile(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  return file;
};

/** The round an event says it is of. */
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

  it('tells the same as JSON, whatever the order of the lines', async () => {
    const one = await runCommand('replay', '--events', await write(made.events), '--json');
    const turned = await write([...made.events].reverse());
    const other = await runCommand('replay', '--events', turned, '--json');
    expect(JSON.parse(one.stdout)).toEqual(JSON.parse(other.stdout));
    expect(JSON.parse(one.stdout)).toMatchObject({ ok: true, rounds: 7, firstBad: null });
  });

  it('finds any byte that was changed, and names the round', async () => {
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
        // without its spec a run cannot be replayed at all; the line is named
        if (made.events[line]!.kind === 37810) expect(stderr).toMatch(/line \d+/);
        else if (round !== undefined) expect(JSON.parse(stdout).firstBad).toBe(round);
      }),
      { numRuns: 12 },
    );
  });

  it('does not call a run ok whose payloads are gone', async () => {
    const lost = made.events.find((event) => event.kind === 7810 && roundOf(event) === 1)!;
    const file = await write(made.events.filter((event) => event !== lost));
    const { exitCode, stdout } = await runCommand('replay', '--events', file);
    expect(exitCode).not.toBe(0);
    expect(stdout).toContain(`model not checked,not here: event ${lost.id}`);
    expect(stdout).toContain('not checked in full: 1 of 7 rounds recomputed');
  });

  it('says what it wants when it is told nothing', async () => {
    const { exitCode, stderr } = await runCommand('replay');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('--events FILE');
  });
});

describe('nostrain explain --events', () => {
  it('says why', async () => {
    const file = await write(made.events);
    const worker = toNpub(signerOf(5).publicKey);
    const asked = ['explain', '--events', file, '--round', '4', '--worker', worker];
    const { exitCode, stdout } = await runCommand(...asked);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^Rejected: outcome [0-9a-f]{64} of round 4 lists manifest .* as base-mismatch\.\n$/,
    );
  });
});

describe('nostrain archive', () => {
  it('writes what relays have, once, and what is new when it is called again', async () => {
    const relay = await createRelay();
    try {
      const relays = createRelaySet([relay.url], { openSocket, clock: systemClock });
      await relays.ready();
      const half = made.events.length - 40;
      const send = async (events: readonly SignedEvent[]) => {
        for (const event of events) await relays.publish(event);
      };
      await send(made.events.slice(0, half));
      const out = inFolder('run.jsonl');
      const argv = ['archive', '--run', made.run, '--relay', relay.url, '--out', out];
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${half} events, ${half} new\n`);
      await send(made.events.slice(half));
      const all = made.events.length;
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${all} events, 40 new\n`);
      const first = await readFile(out, 'utf8');
      expect((await runCommand(...argv)).stdout).toBe(`${out}: ${all} events, 0 new\n`);
      expect(await readFile(out, 'utf8')).toBe(first);
      expect(first.split('\n')[0]).toContain('"kind":37810');
      await relays.close();

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
