/**
 * The section `files` of a run spec: for the text of the run and the files of its base, their hashes, the digest of the
 * manifest of their chunks, and sources. Downloads are verified against the hashes, so sources need no trust.
 */

import { isText, listOf, type Untyped } from '../base/shape.ts';
import { hash, row } from './field.ts';
import type { Digest } from './ids.ts';
import { memberOf, objectOf, refuseUnknown, wrong } from './spec/spec-readers.ts';
import { type BaseFile, FILES, fileFields, readFiles } from './spec/start.ts';

/** One file, with the manifest of its chunks. */
export interface ChunkedFile extends BaseFile {
  readonly blake3: Digest;
  /** SHA-256 of the manifest, see docs/checkpoints.md. */
  readonly manifest: Digest;
}

/** The section `files` of a run spec. */
export interface ChunkedFiles {
  /** URLs of relays, Blossom servers, holders and web servers, ascending; the relays of the run are sources too. */
  readonly at: readonly string[];
  readonly each: readonly ChunkedFile[];
}

/** Files of a base that are read although its weights do not name them. */
const BESIDE = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'];
/** Name of the manifest of sealed data among the files of a run. */
export const SEALED_FILE = 'sealed.json';
const MOST_BESIDE = 2 ** 24;
const MOST_ADDRESSES = 8;
/** Maximum file size, 64 GiB, like in a manifest. */
const MOST_BYTES = 2 ** 36;
const ADDRESS = /^(?:https?|wss?):\/\/[!-"$->A-~]{1,248}$/;

/** Fields of one file. */
export const chunkedFields = {
  ...fileFields,
  blake3: row('BLAKE3 of its bytes', hash()),
  manifest: row('digest that `nostrain checkpoint pack` prints: SHA-256 of the manifest', hash()),
} as const;

const NAMES = ['at', 'each'];

/** Reads the section of a spec; null if it has none. Throws a ConfigError with the path of the invalid value. */
export function readChunkedFiles(spec: Untyped): ChunkedFiles | null {
  if (spec.files === null) return null;
  const files = objectOf(spec, 'files', NAMES);
  refuseUnknown(files, NAMES, 'files.');
  return {
    at: readAddresses(memberOf(files, 'at', 'files.', ADDRESSES)),
    each: readEach(memberOf(files, 'each', 'files.', FILES)),
  };
}

const ADDRESSES =
  `a list of at most ${MOST_ADDRESSES} addresses (https, http, wss, ws), each once, ` +
  'ascending, without user and query';

function readAddresses(value: unknown): readonly string[] {
  const isAddress = (each: unknown): each is string => isText(each) && ADDRESS.test(each);
  const isGood = listOf(isAddress, MOST_ADDRESSES)(value);
  if (isGood && value.every((each, i) => i === 0 || value[i - 1]! < each)) return value;
  throw wrong('files.at', value, ADDRESSES);
}

function readEach(value: unknown): readonly ChunkedFile[] {
  const each = readFiles(value, chunkedFields, 'files.each');
  const large = each.findIndex(({ bytes }) => bytes > MOST_BYTES);
  if (large < 0) return each;
  throw wrong(`files.each.${large}.bytes`, each[large]!.bytes, `at most ${MOST_BYTES}`);
}

/**
 * Reports whether every file is the text of the run or the manifest of its sealed data (`data`), a file of its base, or
 * a known file next to it, so that a spec cannot make workers download anything else.
 */
export const areNeeded = (
  { each }: ChunkedFiles,
  data: Digest | undefined,
  base: readonly BaseFile[] | undefined,
): boolean =>
  each.every(({ name, sha256, bytes }) => {
    if (sha256 === data || base?.some((file) => file.sha256 === sha256 && file.name === name))
      return true;
    return base !== undefined && BESIDE.includes(name) && bytes <= MOST_BESIDE;
  });
