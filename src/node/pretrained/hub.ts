/**
 * Downloads models from the Hugging Face hub: `hf:owner/name[@revision]`, or one .gguf file of a repository. Every file
 * is verified against the hub's hash, interrupted downloads resume, and models in the Python cache are reused.
 *
 * Paths: https://huggingface.co/docs/hub/api; cache: https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { ConfigError, causeOf, safeLine, wordsOf } from '../../base/errors.ts';
import { shareReporter } from '../../base/slow.ts';
import { type PartFile, resumeDownload } from '../../network/chunks/resume-download.ts';
import {
  BESIDE,
  HUB,
  type HubReference,
  hubError,
  MOST_BESIDE,
  parseHubReference,
  pathOnHub,
} from '../../pretrained/hub-reference.ts';
import type { ModelFiles } from '../../pretrained/weights.ts';
import { weightFiles } from '../../pretrained/weights.ts';
import { type BaseFile, partOf } from '../../run/spec/start.ts';
import { dataHome } from '../files/data-home.ts';
import { folderOf } from './model-files.ts';

export interface HubOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Called with the progress of a file, in bytes. */
  readonly onProgress?: (file: string, have: number, of: number) => void;
  readonly signal?: AbortSignal;
  /** Expected files, if known; another one is refused before it is downloaded. */
  readonly wanted?: readonly BaseFile[] | undefined;
}

const COMMIT = /^[0-9a-f]{40}$/;

/** Downloads missing files of a model, and returns its folder or .gguf file on this machine. */
export async function fetchModel(text: string, options: HubOptions = {}): Promise<string> {
  const reference = parseHubReference(text);
  const env = options.env ?? process.env;
  const hub = new Hub(reference, env, options);
  const commit = await hub.commit();
  const { repository, file } = reference;
  const shared = join(cacheOf(env), repoFolder(repository), 'snapshots', commit);
  if (await isComplete(shared, file)) return file === undefined ? shared : join(shared, file);
  const folder = join(dataHome(env), 'models', repoFolder(repository), commit);
  await mkdir(folder, { recursive: true });
  const files = hub.files(folder, commit);
  for (const name of besideOf(options)) await files.open(name);
  if (file !== undefined) {
    await need(files, file);
    return join(folder, file);
  }
  await need(files, 'config.json');
  for (const name of await weightFiles(files)) await need(files, name);
  return folder;
}

/** Returns the small files to download. A run that does not name tokenizer.json has the tokenizer in its .gguf file. */
const besideOf = ({ wanted }: HubOptions): readonly string[] =>
  BESIDE.filter((name) => {
    if (wanted === undefined || name !== 'tokenizer.json') return true;
    return wanted.some((file) => file.name === name);
  });

/** Returns the files of a model on this machine: those that a run names, and the small ones in the same folder. */
export async function filesOfModel(
  path: string,
  files: readonly BaseFile[],
): Promise<readonly { readonly name: string; readonly path: string }[]> {
  const isFile = path.endsWith('.gguf');
  const folder = isFile ? dirname(path) : path;
  const has = async (name: string) => (await folderOf(folder).open(name)) !== undefined;
  const named = files.map(({ name }) => name);
  const beside = isFile ? [] : BESIDE.filter((name) => !named.includes(name));
  const more = await Promise.all(beside.map(async (name) => ((await has(name)) ? [name] : [])));
  return [...named, ...more.flat()].map((name) => ({ name, path: join(folder, name) }));
}

async function need(files: ModelFiles, name: string): Promise<void> {
  if (await files.open(name)) return;
  throw new ConfigError('model/hub', `${files.name} has no ${name}`, {
    hint:
      'check its files on the hub: a model needs config.json and safetensors, or name a .gguf ' +
      'file',
  });
}

const repoFolder = (repository: string): string => `models--${repository.replace('/', '--')}`;

/** Returns the cache folder of the Python programs. */
function cacheOf(env: NodeJS.ProcessEnv): string {
  const home = env.HF_HOME ?? join(env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'huggingface');
  return env.HF_HUB_CACHE ?? join(home, 'hub');
}

/** Reports whether a folder of the Python cache has all files of the model. */
async function isComplete(folder: string, file: string | undefined): Promise<boolean> {
  const files = folderOf(folder);
  const has = async (name: string) => (await files.open(name)) !== undefined;
  if (file !== undefined) return has(file);
  if (!(await has('config.json')) || !(await has('tokenizer.json'))) return false;
  const weights = await weightFiles(files).catch(() => undefined);
  if (!weights) return false;
  const present = await Promise.all(weights.map(has));
  return present.every(Boolean);
}

interface Description {
  readonly bytes: number;
  /** Lowercase hex: the SHA-256 of large files, the git blob id of small ones. */
  readonly hash: string;
}

class Hub {
  readonly #reference: HubReference;
  readonly #env: NodeJS.ProcessEnv;
  readonly #options: HubOptions;
  readonly #endpoint: string;

  constructor(reference: HubReference, env: NodeJS.ProcessEnv, options: HubOptions) {
    this.#reference = reference;
    this.#env = env;
    this.#options = options;
    this.#endpoint = (env.HF_ENDPOINT ?? HUB).replace(/\/+$/, '');
  }

  /** Resolves the revision to a commit; from the Python cache if the hub cannot be reached. */
  async commit(): Promise<string> {
    const { repository, revision } = this.#reference;
    if (COMMIT.test(revision)) return revision;
    try {
      const answer = await this.#ask(`/api/models/${repository}/revision/${revision}`);
      if (!answer.ok) throw this.#refused(answer, `${repository}@${revision}`);
      const { sha } = (await answer.json()) as { sha?: unknown };
      if (typeof sha === 'string' && COMMIT.test(sha)) return sha;
      throw hubError(`${this.#endpoint} names no commit of ${repository}`, 'check HF_ENDPOINT');
    } catch (error) {
      if (error instanceof ConfigError && error.code !== 'model/hub-away') throw error;
      const kept = join(cacheOf(this.#env), repoFolder(repository), 'refs', revision);
      const sha = await readFile(kept, 'utf8').catch(() => '');
      if (COMMIT.test(sha.trim())) return sha.trim();
      throw error;
    }
  }

  /** Returns the repository's files at a commit; each is downloaded when it is first opened. */
  files(folder: string, commit: string): ModelFiles {
    const local = folderOf(folder, `${this.#reference.repository}@${commit.slice(0, 8)}`);
    return {
      name: local.name,
      open: async (name) =>
        (await local.open(name)) ??
        ((await this.#download(folder, commit, name)) ? local.open(name) : undefined),
    };
  }

  /** Downloads and verifies a file. Returns false if the repository has no such file. */
  async #download(folder: string, commit: string, name: string): Promise<boolean> {
    const path = pathOnHub(this.#reference.repository, commit, name);
    const described = await this.#describe(path);
    if (!described) return false;
    this.#assertWanted(name, described);
    const part = join(folder, `${name}.part`);
    await this.#append(path, name, part, described);
    const actual = await hashOf(part, described);
    if (actual !== described.hash) {
      await rm(part);
      throw hubError(
        `${name} has hash ${actual}, not ${described.hash}`,
        'run the same command again; if the error stays, a server or proxy changes files',
      );
    }
    await rename(part, join(folder, name));
    return true;
  }

  /** Throws a ConfigError (`base/other`) if a file is not the expected one, or is unexpected and not small. */
  #assertWanted(name: string, { bytes, hash }: Description): void {
    const { wanted } = this.#options;
    if (wanted === undefined) return;
    const file = wanted.find((each) => partOf(each.name) === partOf(name));
    const isLarge = hash.length === 64;
    const isOther =
      file !== undefined && (file.bytes !== bytes || (isLarge && file.sha256 !== hash));
    if (!isOther && (file !== undefined || bytes <= MOST_BESIDE)) return;
    const { repository } = this.#reference;
    throw new ConfigError(
      'base/other',
      `${repository} has another ${name} than the run starts from`,
      { hint: 'name the files that the run was created with (--base)' },
    );
  }

  async #describe(path: string): Promise<Description | undefined> {
    const answer = await this.#ask(path, { method: 'HEAD', redirect: 'manual' });
    if (answer.status === 404) return undefined;
    if (answer.status >= 400) throw this.#refused(answer, path);
    const header = (name: string) => answer.headers.get(name) ?? undefined;
    const tag = header('x-linked-etag') ?? header('etag') ?? '';
    const hash = /^(?:W\/)?"?([0-9a-f]{40}|[0-9a-f]{64})"?$/.exec(tag)?.[1];
    const bytes = Number(header('x-linked-size') ?? header('content-length') ?? Number.NaN);
    if (hash !== undefined && Number.isSafeInteger(bytes)) return { bytes, hash };
    throw hubError(
      `${this.#endpoint} does not give the hash and size of ${path}`,
      'download the files yourself and name their folder',
    );
  }

  /** Downloads the missing rest of a file. */
  #append(path: string, name: string, part: string, { bytes }: Description): Promise<void> {
    const { onProgress, signal } = this.#options;
    return resumeDownload({
      part: filePart(part),
      bytes,
      ask: async (headers) => {
        const answer = await this.#ask(path, { headers });
        if (!answer.ok || !answer.body) throw this.#refused(answer, name);
        return answer;
      },
      away: (cause) => {
        signal?.throwIfAborted();
        return this.#away(cause);
      },
      onBytes: (have) => onProgress?.(name, have, bytes),
    });
  }

  async #ask(path: string, init: RequestInit = {}): Promise<Response> {
    const token = this.#env.HF_TOKEN;
    const headers = {
      'accept-encoding': 'identity',
      ...init.headers,
      ...(token && { authorization: `Bearer ${token}` }),
    };
    const { signal = null } = this.#options;
    try {
      return await fetch(this.#endpoint + path, { ...init, headers, signal });
    } catch (cause) {
      signal?.throwIfAborted();
      throw this.#away(cause);
    }
  }

  #away(cause: unknown): ConfigError {
    return new ConfigError(
      'model/hub-away',
      `${this.#endpoint} does not answer (${safeLine(wordsOf(causeOf(cause)))})`,
      { hint: 'run the same command again to resume, or name a folder with the files', cause },
    );
  }

  #refused({ status }: Response, what: string): ConfigError {
    const hints: Readonly<Record<number, string>> = {
      401: 'check the name; private models need a token in HF_TOKEN',
      403: 'accept the license of the model on its page, and set HF_TOKEN',
      404: 'check the name and the revision',
    };
    const message = `${this.#endpoint} answered ${status} for ${safeLine(what)}`;
    return hubError(message, hints[status] ?? 'try again later');
  }
}

/** Returns the SHA-256 of a large file, or the git blob id of a small one. */
async function hashOf(file: string, { bytes, hash }: Description): Promise<string> {
  const isBlob = COMMIT.test(hash);
  const digest = createHash(isBlob ? 'sha1' : 'sha256');
  if (isBlob) digest.update(`blob ${bytes}\0`);
  for await (const part of createReadStream(file) as AsyncIterable<Uint8Array>) digest.update(part);
  return digest.digest('hex');
}

/** Returns the part of a download in a file on this machine. */
export const filePart = (path: string): PartFile => ({
  size: async () => (await stat(path).catch(() => undefined))?.size ?? 0,
  remove: () => rm(path, { force: true }),
  async write(from, pieces) {
    const handle = await open(path, from > 0 ? 'a' : 'w', 0o600);
    try {
      for await (const piece of pieces) await handle.write(piece);
    } finally {
      await handle.close();
    }
  },
});

/** Returns a function that reports each file of a base as its download begins, and then its progress. */
export function downloadReporter(
  base: string,
  onNotice: (message: string) => void,
): NonNullable<HubOptions['onProgress']> {
  const reporters = new Map<string, ReturnType<typeof shareReporter>>();
  return (file, have, of) => {
    const what = `downloading ${file} of ${base}`;
    const report = reporters.get(file) ?? shareReporter(what, onNotice);
    if (!reporters.has(file)) onNotice(`${what}, ${Math.ceil(of / 1e6)} MB`);
    reporters.set(file, report);
    report(have, of);
  };
}
