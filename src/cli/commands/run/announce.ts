/** `nostrain run announce`: posts a note or a model card about a run; once the run is over, with its zap split. */

import { encode as encodePng } from 'fast-png';
import { systemClock } from '../../../base/async.ts';
import { toHex } from '../../../base/bytes.ts';
import { ConfigError, RelayError } from '../../../base/errors.ts';
import { encodeRunAddress } from '../../../certified/wire/runs.ts';
import { openArchive } from '../../../dashboard/follow-run.ts';
import { createBlossomSource } from '../../../network/chunks/http-source.ts';
import {
  createSigner,
  type EventDraft,
  type SignedEvent,
  verifyEvent,
} from '../../../network/event.ts';
import { createSecretKey, homeSigner, toNpub } from '../../../node/files/keys.ts';
import { signAtBunker } from '../../../node/join/delegation.ts';
import { nativeCrypto } from '../../../node/native/event-crypto.ts';
import { nativeSha256 } from '../../../node/native/sha256.ts';
import { createAskHttp } from '../../../node/net/ask-http.ts';
import type { RelayReach } from '../../../node/net/relays.ts';
import {
  buildAnnouncement,
  lossesIn,
  type PostedPicture,
  type RunPost,
  splitOf,
} from '../../../social/announce.ts';
import { defineCommand } from '../../../terminal/command.ts';
import { connectionOf } from '../../../terminal/connection.ts';
import { type FlagValues, severalOr, text, toggle } from '../../../terminal/flag-table.ts';
import { asJson, writeNote, writeOut } from '../../../terminal/output.ts';
import { historySourceFlags, readHistory } from '../../shared/archive-source.ts';
import { keyFlags } from '../../shared/signed-document.ts';
import { tabFlag } from '../../shared/tab-link.ts';
import { publishEvent, withRelays } from '../../shared/with-relays.ts';
import { assertWebAddress } from '../handler.ts';

const { run: _, ...readingFlags } = historySourceFlags;

/** Flags for the key that signs, here or in a remote signer. */
const userFlags = {
  ...keyFlags,
  bunker: text('<address>', 'sign with the remote signer at bunker://… (NIP-46) instead'),
};

type UserFlags = FlagValues<typeof userFlags>;

export const announceRun = defineCommand({
  name: 'announce',
  help: 'post a note about a run, signed by you; once the run is over it splits zaps',
  args: [['<run>', 'naddr1…, link, id, spec file or name of the run']],
  flags: {
    ...readingFlags,
    to: severalOr(
      'those of the run',
      '<url>',
      'relay to post to, repeatable; best those of your relay list',
    ),
    card: toggle('publish a model card (NIP-23) instead of a note; a later one replaces it'),
    page: text('<url>', 'address of a run page to link to'),
    tab: tabFlag,
    blossom: text(
      '<url>',
      'Blossom server for a picture of the loss; without one it is drawn in text',
    ),
    dry: toggle('print the event unsigned and post nothing'),
    ...userFlags,
    json: toggle('print JSON'),
  },
  async run(flags, { args: [run], signal }) {
    for (const url of [flags.page, flags.tab]) if (url !== undefined) assertWebAddress(url);
    const { archive, ...source } = await readHistory({ ...flags, run }, signal);
    const isNamed = flags.to.length > 0;
    const connection = isNamed ? connectionOf(flags) : source.reach.connection;
    const reach = { connection, signal };
    const to = isNamed ? flags.to : source.reach.relays;
    const [relay] = to;
    if (relay === undefined) {
      throw new ConfigError('flag/to', 'no relay to post to is named', {
        hint: 'name one with --to wss://…',
      });
    }
    await withRelays(to, reach, async (session) => {
      const { relays } = session;
      const now = Math.floor(systemClock.now() / 1000);
      const opened = await openArchive(archive, { ...source.options, nowSeconds: now });
      const { spec, picture } = opened;
      const hints = source.reach.relays.length > 0 ? source.reach.relays : to;
      const split = await splitOf(picture, relays, signal);
      for (const key of split.leftOut)
        writeNote(`left out, without a Lightning address: ${toNpub(key)}`);
      const losses = lossesIn(picture);
      const isDrawn = flags.blossom !== undefined && losses.length > 1 && flags.dry !== true;
      const about: RunPost = {
        shown: picture,
        author: spec.author,
        naddr: encodeRunAddress({ run: opened.run, author: spec.author, relays: hints }),
        relay: hints[0]!,
        page: flags.page,
        tab: flags.tab,
        picture: isDrawn ? await uploadChart(losses, flags, signal) : undefined,
        split,
      };
      const draft = buildAnnouncement(about, now, flags.card === true);
      if (flags.dry) return writeOut(asJson(draft));
      const event = await signAsUser(draft, flags, reach);
      const accepting = await publishEvent(event, 'note', session);
      writeOut(
        flags.json ? asJson({ event, relays: accepting }) : `${event.id}\n${event.content}\n`,
      );
    });
  },
});

/** Uploads the chart under its hash. The key that uploads is the user's, or a throwaway one if a bunker signs. */
async function uploadChart(
  losses: readonly number[],
  flags: UserFlags & { readonly blossom?: string },
  signal: AbortSignal,
): Promise<PostedPicture> {
  const bytes = drawLossChart(losses);
  const sha256 = toHex(nativeSha256(bytes));
  const signer =
    flags.bunker === undefined
      ? await homeSigner(flags, writeNote)
      : createSigner(createSecretKey(), nativeCrypto);
  const server = flags.blossom!.replace(/\/$/, '');
  const ask = createAskHttp({ isTrusted: true });
  const contentType = 'image/png';
  const blossom = createBlossomSource(server, { ask, clock: systemClock, signer, contentType });
  await blossom.store?.({ sha256, bytes: bytes.length, offset: undefined }, bytes, signal);
  const size = `${CHART_SIZE.width}x${CHART_SIZE.height}`;
  return { url: `${server}/${sha256}.png`, sha256, type: contentType, size };
}

/** Returns the signed event. Throws a ConfigError or a RelayError if the remote signer refuses or signs another one. */
async function signAsUser(
  draft: EventDraft,
  flags: UserFlags,
  reach: RelayReach,
): Promise<SignedEvent> {
  if (flags.bunker === undefined) return (await homeSigner(flags, writeNote)).sign(draft);
  const event = await signAtBunker(draft, flags.bunker, { onNotice: writeNote, ...reach });
  const isSame = event.content === draft.content && event.kind === draft.kind;
  const hasTags = JSON.stringify(event.tags) === JSON.stringify(draft.tags);
  if (isSame && hasTags && verifyEvent(event).ok) return event;
  throw new RelayError('bunker/other', 'the signer returned another event than the requested one', {
    hint: 'use another signer',
  });
}

const CHART_SIZE = { width: 640, height: 320 } as const;
const MARGIN = 24;
const PAPER = 255;
const INK = 32;
/** Half the thickness of the line, in pixels. */
const PEN = 2;

/** Returns a grayscale PNG with one line over the rounds; the largest loss is at the top. */
function drawLossChart(losses: readonly number[]): Uint8Array {
  const { width, height } = CHART_SIZE;
  const pixels = new Uint8Array(width * height).fill(PAPER);
  const least = losses.reduce((low, loss) => Math.min(low, loss), Number.POSITIVE_INFINITY);
  const range = losses.reduce((high, loss) => Math.max(high, loss), least) - least || 1;
  const xOf = (i: number) => MARGIN + (i / Math.max(1, losses.length - 1)) * (width - 2 * MARGIN);
  const yOf = (loss: number) => MARGIN + (1 - (loss - least) / range) * (height - 2 * MARGIN);
  for (let i = 1; i < losses.length; i++) {
    const [x, y] = [xOf(i - 1), yOf(losses[i - 1]!)];
    const [dx, dy] = [xOf(i) - x, yOf(losses[i]!) - y];
    const steps = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy), 1));
    for (let at = 0; at <= steps; at++) {
      dot(pixels, Math.round(x + (dx * at) / steps), Math.round(y + (dy * at) / steps));
    }
  }
  return encodePng({ width, height, data: pixels, channels: 1, depth: 8 });
}

function dot(pixels: Uint8Array, x: number, y: number): void {
  for (let row = y - PEN; row <= y + PEN; row++) {
    pixels.fill(INK, row * CHART_SIZE.width + x - PEN, row * CHART_SIZE.width + x + PEN);
  }
}
