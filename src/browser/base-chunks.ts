/**
 * Downloads a file of a base model chunk by chunk, from holders and servers that store chunks by their hash, and from
 * the relays of the run. The chunks are written in order, so that an interrupted download resumes at a chunk.
 */

import { concatBytes } from '../base/bytes.ts';
import { sha256, sha256Hex } from '../base/hash.ts';
import { createRelaySource } from '../network/attachments/relay-source.ts';
import { fetchChunks } from '../network/chunks/fetch.ts';
import type { ChunkSink } from '../network/chunks/fetch-options.ts';
import { findManifestOf } from '../network/chunks/find-manifest.ts';
import { type AskHttp, createHttpSource } from '../network/chunks/http-source.ts';
import { type FileManifest, type Piece, piecesOf } from '../network/chunks/manifest.ts';
import { bodyOf, type PartFile } from '../network/chunks/resume-download.ts';
import type { ChunkSource } from '../network/chunks/source.ts';
import type { ChunkedFile } from '../run/chunked-files.ts';
import type { Digest } from '../run/ids.ts';
import type { RunSpec } from '../run/spec/run-spec.ts';
import {
  type BaseSource,
  type Bringing,
  type Reach,
  serversIn,
  UselessSource,
} from './base-files.ts';

/** Maximum chunks in memory at once; the packer chose their length, up to 64 MiB. */
const CHUNKS_AT_ONCE = 4;

/** Returns the chunks of the run's files as one source; none if the spec names no chunks. */
export function chunkSources(spec: RunSpec, options: Reach): readonly BaseSource[] {
  if (spec.files === null) return [];
  const { each } = spec.files;
  const servers = serversIn(spec, options);
  const resume: BaseSource['resume'] = (wanted, part, bringing) => {
    const file = each.find(({ sha256: hash }) => hash === wanted.sha256);
    if (file === undefined) throw new UselessSource('the run names no chunks of the file');
    return resumeByChunks(file, part, servers, bringing);
  };
  return [{ name: 'chunks', urlOf: () => undefined, resume }];
}

/** Returns a file of the run from its chunks; undefined if the run names none, or no source has one of them. */
export async function fetchByChunks(
  spec: RunSpec,
  wanted: Digest,
  mostBytes: number,
  reach: Reach,
): Promise<Uint8Array | undefined> {
  const file = spec.files?.each.find(({ sha256: hash }) => hash === wanted);
  if (file === undefined || file.bytes > mostBytes) return undefined;
  const pieces: Uint8Array[] = [];
  const part: PartFile = {
    size: async () => 0,
    remove: async () => undefined,
    async write(_, all) {
      for await (const piece of all) pieces.push(piece);
    },
  };
  const options = { ...reach, onBytes: () => undefined };
  return resumeByChunks(file, part, serversIn(spec, reach), options).then(
    () => concatBytes(...pieces),
    () => undefined,
  );
}

/** Completes the part. Throws if no source has the manifest or one of the chunks; what arrived before stays. */
async function resumeByChunks(
  file: ChunkedFile,
  part: PartFile,
  servers: readonly string[],
  options: Reach & Pick<Bringing, 'onBytes'>,
): Promise<void> {
  const manifest = await manifestOf(file, sourcesFor(undefined, servers, options), options);
  const { chunkBytes, bytes } = manifest;
  if (bytes !== file.bytes) throw new UselessSource('its manifest is of another file');
  const sources = sourcesFor(manifest, servers, options);
  const wanted = piecesOf(manifest)
    .map((piece, index) => ({ piece, index }))
    .filter(({ piece }) => piece.offset !== undefined);
  const first = Math.floor((await part.size()) / chunkBytes);
  async function* inOrder(): AsyncGenerator<Uint8Array> {
    for (let at = first; at < wanted.length; at += CHUNKS_AT_ONCE) {
      const some = wanted.slice(at, at + CHUNKS_AT_ONCE);
      const received = await fetchAll(file.manifest, some, sources, options);
      for (const { piece } of some) yield received.get(piece)!;
      options.onBytes(Math.min(bytes, (at + some.length) * chunkBytes));
    }
  }
  await part.write(first * chunkBytes, inOrder());
}

/** Returns the manifest. It throws a plain error, since another source or a later attempt may have it. */
const manifestOf = (
  { manifest }: ChunkedFile,
  sources: readonly ChunkSource[],
  { clock, signal }: Reach,
): Promise<FileManifest> =>
  findManifestOf(manifest, sources, { clock, signal, sha256 }).catch((cause: Error) => {
    throw new Error(cause.message, { cause });
  });

function sourcesFor(
  manifest: FileManifest | undefined,
  servers: readonly string[],
  { fetch, relays, clock }: Reach,
): readonly ChunkSource[] {
  const payload = manifest?.root ? { root: manifest.root, bytes: manifest.bytes } : undefined;
  const ask = askWith(fetch);
  return [
    ...servers.map((url) => createHttpSource(url, { ask, clock })),
    createRelaySource({ name: 'relays', relays, clock, sha256, payload }),
  ];
}

const askWith =
  (fetch: Reach['fetch']): AskHttp =>
  async (url, { headers = {}, signal }) => {
    const answer = await fetch(url, { headers, signal });
    return {
      status: answer.status,
      header: (name) => answer.headers.get(name) ?? undefined,
      body: bodyOf(answer),
      cancel: () => void answer.body?.cancel().catch(() => undefined),
    };
  };

interface IndexedPiece {
  readonly piece: Piece;
  readonly index: number;
}

/** Returns the bytes of these chunks, each with its hash. Throws if no source has one of them. */
async function fetchAll(
  digest: Digest,
  wanted: readonly IndexedPiece[],
  sources: readonly ChunkSource[],
  { clock, signal }: Reach,
): Promise<ReadonlyMap<Piece, Uint8Array>> {
  const received = new Map<Piece, Uint8Array>();
  const openSink = async (piece: Piece) => sinkInto(received, piece);
  const { missing } = await fetchChunks<Piece>({
    digest,
    wanted,
    sources,
    clock,
    signal,
    openSink,
  });
  if (missing[0] === undefined) return received;
  throw new Error(`no source has ${missing[0].name}`);
}

function sinkInto(received: Map<Piece, Uint8Array>, piece: Piece): ChunkSink {
  const parts: Uint8Array[] = [];
  return {
    write: (bytes) => void parts.push(bytes.slice()),
    finish: async () => {
      const bytes = concatBytes(...parts);
      if (sha256Hex(bytes) !== piece.sha256) return false;
      received.set(piece, bytes);
      return true;
    },
    discard: async () => undefined,
  };
}
