/**
 * Builds the events by which Nostr clients find the pages that open runs: the manifest and snapshots of a static site
 * (NIP-5A), and the profile and handler of the program (NIP-89).
 */
import { certifiedCheckpoint } from '../../kinds/certified-checkpoint.ts';
import { run } from '../../kinds/run.ts';
import { utf8 } from '../base/bytes.ts';
import { sha256Hex } from '../base/hash.ts';
import type { EventDraft } from '../network/event.ts';
import { type Share, zapTags } from './zaps.ts';

/** Kind of a named site: other sites of the key, and its root site, stay unchanged. */
export const NAMED_SITE = 35_128;
const SNAPSHOT = 5128;

export interface SiteFile {
  /** Absolute path. */
  readonly path: string;
  readonly sha256: string;
}

export interface Site {
  readonly name: string;
  readonly title: string;
  readonly author: string;
  readonly files: readonly SiteFile[];
  /** Blossom servers. */
  readonly servers: readonly string[];
  /** URL of the source code. */
  readonly source?: string | undefined;
  /** Relay that has the handler event of this key. */
  readonly relay: string;
  /** How a zap of the site is split: the address of the run that it shows, which is over, and its contributors. */
  readonly split?: { readonly run: string; readonly shares: readonly Share[] } | undefined;
}

/** Returns the aggregate hash of NIP-5A: equal files have equal hashes, independent of the signer. */
export const siteHash = (files: readonly SiteFile[]): string =>
  sha256Hex(
    utf8(
      files
        .map(({ path, sha256 }) => `${sha256} ${path}\n`)
        .sort()
        .join(''),
    ),
  );

/** Returns the address of a named site, as `a` tags write it. */
const siteAddress = (author: string, name: string): string => `${NAMED_SITE}:${author}:${name}`;

/** Identifier (`d`) of the handler event. */
const HANDLER_ID = 'nostrain';
const HANDLER = 31_990;

/** Returns the drafts of the manifest and of its snapshot. */
export function buildSite(site: Site, createdAt: number): readonly [EventDraft, EventDraft] {
  const { name, title, author, files, servers, source, relay, split } = site;
  const about = [
    ...files.map(({ path, sha256 }) => ['path', path, sha256]),
    ['x', siteHash(files), 'aggregate'],
    ...servers.map((server) => ['server', server]),
    ['title', title],
    ...(source === undefined ? [] : [['source', source]]),
    ['app', `${HANDLER}:${author}:${HANDLER_ID}`, relay],
    ...(split === undefined ? [] : [['a', split.run, relay], ...zapTags(split.shares, relay)]),
  ];
  const draft = { created_at: createdAt, content: '' };
  return [
    { ...draft, kind: NAMED_SITE, tags: [['d', name], ...about] },
    { ...draft, kind: SNAPSHOT, tags: [['a', siteAddress(author, name), relay], ...about] },
  ];
}

export interface Handler {
  readonly author: string;
  /** Addresses of the run page and of the tab that trains, without a fragment. */
  readonly page: string;
  readonly tab?: string | undefined;
  /** Name of the Nostr site with the page, if it is one of this key. */
  readonly site?: string | undefined;
  /** Relay on which that site is announced. */
  readonly relay: string;
}

/** Returns the drafts of kind 0 and 31990. Clients replace `<bech32>` by the naddr or nevent that they open. */
export function buildHandler(handler: Handler, createdAt: number): readonly EventDraft[] {
  const { author, page, tab, site, relay } = handler;
  const profile = JSON.stringify({
    name: 'nostrain',
    about: 'Opens runs that train one model together over Nostr relays.',
    website: page,
    bot: true,
  });
  const web = (url: string, entity: string) => ['web', `${url}#<bech32>`, entity];
  const tags = [
    ['d', HANDLER_ID],
    ...[run.kind, certifiedCheckpoint.kind].map((kind) => ['k', String(kind)]),
    ...(site === undefined ? [] : [['latest', siteAddress(author, site), relay]]),
    web(page, 'naddr'),
    ...(tab === undefined ? [] : [web(tab, 'naddr')]),
    web(page, 'nevent'),
  ];
  const draft = { created_at: createdAt, content: profile };
  return [
    { ...draft, kind: 0, tags: [] },
    { ...draft, kind: HANDLER, tags },
  ];
}
