/** `nostrain relays find`: finds relays that other programs and members know, tests them, and ranks them. */

import { systemClock } from '../../base/async.ts';
import { ConfigError } from '../../base/errors.ts';
import type { SignedEvent, Signer } from '../../network/event.ts';
import { homeSigner } from '../../node/files/keys.ts';
import type { CheckedRelay } from '../../probe/index.ts';
import {
  buildRelayRecord,
  buildRetention,
  candidateFilters,
  rankCandidates,
  rankChecked,
  retentionFilter,
} from '../../social/relay-records.ts';
import { defineCommand, defineGroup } from '../../terminal/command.ts';
import { connectionFlags, connectionOf } from '../../terminal/connection.ts';
import { severalOr, text, toggle, whole, withDefault } from '../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../terminal/output.ts';
import { privateRelaysFlag } from '../shared/member-flags.ts';
import { keyFlags } from '../shared/signed-document.ts';
import { findRun, publishEvent, withRelays } from '../shared/with-relays.ts';
import { check, checkRelaysWithPorts, formatReports } from './relays.ts';

const findRelays = defineCommand({
  name: 'find',
  help: 'find relays in records of monitors and in lists of members, test them, and rank them',
  flags: {
    relay: severalOr('none', '<url>', 'relay to ask for records of relays, repeatable'),
    run: text('<run>', 'also relays that founders of this run write to (their NIP-65 lists)'),
    most: withDefault(whole('<n>', 'maximum relays to test', 1, 64), 8),
    seconds: withDefault(whole('<n>', 'maximum seconds per relay', 1, 600), 30),
    publish: severalOr(
      'publishes nothing',
      '<url>',
      'relay to publish the measurements on (NIP-66), repeatable',
    ),
    allowPrivateRelays: privateRelaysFlag,
    ...keyFlags,
    json: toggle('print JSON'),
    ...connectionFlags,
  },
  async run(flags, { signal }) {
    const { relay, run, most, seconds, publish } = flags;
    if (relay.length === 0) {
      throw new ConfigError('flag/relay', 'no relay to ask', {
        hint: 'name one that you use with --relay wss://…',
      });
    }
    const reach = { connection: connectionOf(flags), signal };
    const named = run && (await findRun(run, flags, { signal }));
    const members = named ? named.spec.founders : [];
    const candidates = await withRelays(relay, reach, async ({ relays }) => {
      const { events } = await relays.query(candidateFilters(members), { waitMs: WAIT_MS, signal });
      return rankCandidates(events, members, flags.allowPrivateRelays).slice(0, most);
    });
    if (candidates.length === 0) {
      throw new ConfigError('relays/none', 'these relays have no records of other relays', {
        hint: 'ask other relays, or test some that you know: nostrain relays check URL',
      });
    }
    writeNote(`testing ${candidates.length} relays`);
    const urls = candidates.map(({ url }) => url);
    const limits = { timeLimitMs: 1000 * seconds, signal };
    const ranked = rankChecked(await checkRelaysWithPorts(urls, limits));
    const flat = ranked.map(({ report, verdict }) => ({ ...report, ...verdict }));
    writeOut(flags.json ? asJson(flat) : formatReports(ranked));
    if (publish.length === 0) return;
    const signer = await homeSigner(flags, writeNote);
    const now = Math.floor(systemClock.now() / 1000);
    const records: SignedEvent[] = [];
    for (const checked of ranked) {
      const kept = await keptSeconds(checked, signer, now, reach);
      records.push(signer.sign(buildRelayRecord(checked, now, kept)));
    }
    await withRelays(publish, { ...reach, signer }, async (session) => {
      for (const record of records) await publishEvent(record, 'record', session);
    });
    writeNote(`published ${records.length} records`);
  },
});

/** Milliseconds to wait for records. */
const WAIT_MS = 10_000;

/**
 * Returns for how long a relay has kept a large event of this key, in seconds; undefined if it has none. Then it gets
 * one, for a later test. A relay that carries no chunks, or fails now, is not measured.
 */
async function keptSeconds(
  { report, verdict }: CheckedRelay,
  signer: Signer,
  now: number,
  reach: Parameters<typeof withRelays>[1],
): Promise<number | undefined> {
  if (verdict.carries !== 'chunks') return undefined;
  const { signal } = reach;
  const measure = withRelays([report.url], { ...reach, signer }, async (session) => {
    const filter = retentionFilter(signer.publicKey);
    const { events } = await session.relays.query([filter], { waitMs: WAIT_MS, signal });
    const [event] = events;
    if (event !== undefined) return Math.max(0, now - event.created_at);
    await publishEvent(signer.sign(buildRetention(now)), 'event of 60 kB', session);
    return undefined;
  });
  return measure.catch((error: unknown) => {
    if (signal.aborted) throw error;
    return undefined;
  });
}

export const relays = defineGroup('relays', 'test relays before a run, or find some', [
  check,
  findRelays,
]);
