import { systemClock } from 'nostrain/base';
import { joinCertifiedRun, layoutOf, makeSpec, replayRun } from 'nostrain/certified';
import { gather, openingOf, type ReplayedRound } from 'nostrain/certified/parts';
import { createRelaySet, createSigner, type SignedEvent } from 'nostrain/network';
import { nativeCrypto, openSocket } from 'nostrain/node';
import { createRelay } from 'nostrain/relay';
import { runIdOf } from 'nostrain/run';
import { describe, expect, it, vi } from 'vitest';
import { followRun, openArchive } from '../../src/dashboard/follow-run.ts';
import { computeProgress } from '../../src/dashboard/picture-of.ts';
import type { RunPicture } from '../../src/dashboard/run-picture.ts';
import { certifiedSpec, generateRun, signerOf } from '../support/certified-run.ts';
import { OWNER } from '../support/delegated.ts';
import { createKeeper } from '../support/keeper.ts';

const keep = createKeeper();
const keyOf = (number: number): string => signerOf(number).publicKey;

describe('a run out of an archive', () => {
  it('is shown round by round: who counted, late, refused, joined, left, was thrown out', async () => {
    const made = generateRun();
    const archive = { events: made.events, beacons: [] };
    const { picture, explain } = await openArchive(archive, { nowSeconds: 1_790_000_000 });
    const { rounds } = picture;
    expect(rounds.map(({ outcome }) => outcome)).toEqual(made.rounds.map(({ digest }) => digest));
    expect(rounds.map(({ modelRoot }) => modelRoot)).toEqual(
      made.rounds.map(({ modelRoot }) => modelRoot),
    );
    expect(rounds[1]!.accepted.some(({ worker }) => worker === keyOf(4))).toBe(false);
    expect(rounds[1]!.joined).toEqual([keyOf(5)]);
    expect(rounds[2]!.accepted).toContainEqual({ worker: keyOf(4), late: true });
    expect(rounds[3]!.result).toBe('void');
    expect(rounds[4]!.rejected).toEqual([{ worker: keyOf(5), reason: 'base-mismatch' }]);
    expect(rounds[5]!.faults).toEqual([{ worker: keyOf(3), kind: 'equivocation' }]);
    expect(rounds[5]!.view).toBe(2);
    expect(rounds[6]!.left).toEqual([keyOf(4)]);
    const byKey = new Map(picture.workers.map((each) => [each.worker, each]));
    expect(byKey.get(keyOf(3))).toMatchObject({ isFaulted: true, inRoster: false });
    expect(picture.open?.round).toBe(7);
    expect(explain(keyOf(4), 1)?.why[0]).toContain('Counted late');
    expect(explain(keyOf(1), 99)).toBeUndefined();
  });
});

describe('a run in which somebody takes part in the name of another key', () => {
  it('is replayed, and shown with that name', async () => {
    const made = generateRun(undefined, certifiedSpec({ late: 'defer', sessions: true }));
    const archive = { events: made.events, beacons: [] };
    expect((await replayRun(archive)).ok).toBe(true);
    const { picture } = await openArchive(archive, { nowSeconds: 1_790_000_000 });
    const byKey = new Map(picture.workers.map((each) => [each.worker, each]));
    expect(byKey.get(keyOf(5))).toMatchObject({ inRoster: true, principal: OWNER.publicKey });
    expect(byKey.get(keyOf(1))).not.toHaveProperty('principal');
  });
});

describe('a picture', () => {
  const made = generateRun();
  const { run, spec } = made;
  const start = openingOf(spec, {});
  const nothing = { heartbeats: new Map(), lastSigns: new Map(), nowSeconds: 1_790_000_000 };
  const tell = (events: readonly SignedEvent[], settled?: readonly ReplayedRound[]) =>
    computeProgress({ start, gathered: gather(events, { run, spec }), settled, ...nothing });

  it('is the same where rounds long decided are not replayed again', () => {
    const whole = tell(made.events);
    const again = tell(made.events, whole.replayed.slice(0, 4));
    expect(again.rounds).toEqual(whole.rounds);
    expect(again.open).toEqual(whole.open);
    expect(again.workers).toEqual(whole.workers);
  });

  it('shows the votes of the round under way, and names the seats that nobody heard of', () => {
    const isOfLast = ({ tags }: SignedEvent) => tags.some(([, value]) => value === `${run}/6`);
    const last = made.events.filter(isOfLast);
    const isOf = (number: number) => (event: SignedEvent) => event.pubkey === keyOf(number);
    const others = made.events.filter((event) => !isOfLast(event));
    const silent = tell([...others, ...last.filter(isOf(1))]);
    expect(silent.rounds).toHaveLength(6);
    const { open } = silent;
    expect(open).toMatchObject({ round: 6, attempt: 0, committed: [keyOf(1)] });
    expect(open!.sent.map(({ worker }) => worker)).toEqual([keyOf(1)]);
    expect(open!.committee).toContain(keyOf(1));
    expect([...open!.missing].sort()).toEqual(
      open!.committee.filter((key) => key !== keyOf(1)).toSorted(),
    );
  });
});

describe('a run over a relay', () => {
  it.each(['linear', 'vit'] as const)(
    'of %s is followed without a key while it goes on, with what workers report; its archive replays',
    async (model) => {
      const relay = keep(await createRelay());
      const open = async () => {
        const set = keep(
          createRelaySet([relay.url], { openSocket, clock: systemClock, crypto: nativeCrypto }),
        );
        await set.ready();
        return set;
      };
      const secretKey = new Uint8Array(32).fill(7);
      const me = createSigner(secretKey).publicKey;
      const document = { telemetry: true };
      const { spec } = await makeSpec({ me, document, training: { model, rounds: 3 } });
      const run = runIdOf(spec);
      const stop = new AbortController();
      let last: RunPicture | undefined;
      let isOver = false;
      let failure: unknown;
      const followed = await followRun(run, {
        ...{ relays: await open(), clock: systemClock, signal: stop.signal, spec },
        onPicture(picture) {
          last = picture;
          if (picture.open === undefined && picture.rounds[2]?.sharedLoss !== undefined) {
            isOver = true;
          }
        },
        onFailed(error) {
          failure = error;
        },
      });
      const trainer = {
        ...{ device: { device: 'abacus', threads: 1 }, layout: layoutOf(spec.training, spec) },
        train: async ({ params }: { params: Float32Array | Float64Array }) => ({
          ...{ params: params.map((value) => value + 0.1), losses: Float32Array.of(2.5) },
          ...{ moments: [], examples: 1, seconds: 0 },
        }),
        evaluate: async () => 1.25,
        ...(model === 'vit' && { accuracy: async () => 0.75 }),
        sample: async () => new Uint8Array(),
        close: async () => undefined,
      };
      const plan = { evaluate: true };
      const worker = await joinCertifiedRun({
        spec,
        secretKey,
        relays: await open(),
        trainer,
        plan,
      });
      await worker.run();
      await vi.waitFor(() => expect(isOver).toBe(true), 30_000);
      expect(failure).toBeUndefined();
      await worker.close();
      expect(last!.rounds.map(({ trainingLoss }) => trainingLoss)).toEqual([2.5, 2.5, 2.5]);
      expect(last!.rounds.map(({ sharedLoss }) => sharedLoss)).toEqual([1.25, 1.25, 1.25]);
      const right = model === 'vit' ? 0.75 : undefined;
      expect(last!.rounds.map(({ accuracy }) => accuracy)).toEqual([right, right, right]);
      expect(last!.lossUnit).toBe(model === 'vit' ? 'nats per picture' : 'squared errors');
      expect(last!.workers).toMatchObject([{ worker: me, counted: 3, sent: 3, device: 'abacus' }]);
      expect(last!.relays).toMatchObject([{ relay: relay.url, state: 'open', refused: 0 }]);
      const report = await replayRun(await followed.archive(), { spec });
      expect(report.ok).toBe(true);
      stop.abort();
    },
  );
});
