/** Names of models on the Hugging Face hub, `hf:owner/name[@revision][/file.gguf]`, and of files next to weights. */
import { ConfigError, safeLine } from '../base/errors.ts';

export interface HubReference {
  readonly repository: string;
  readonly revision: string;
  /** A .gguf file; undefined means the safetensors of the repository. */
  readonly file: string | undefined;
}

const SCHEME = 'hf:';
/** Address of the hub, without a slash at the end. */
export const HUB = 'https://huggingface.co';
/** Maximum bytes of a file that the run does not name. */
export const MOST_BESIDE = 16 * 1024 * 1024;
/** Small files that are downloaded too if the repository has them. */
export const BESIDE: readonly string[] = [
  'tokenizer.json',
  'tokenizer_config.json',
  'chat_template.jinja',
];

export const isHubReference = (text: string): boolean => text.startsWith(SCHEME);

/** Parses `hf:owner/name[@revision][/file.gguf]`. Throws a ConfigError (`model/hub`) about anything else. */
export function parseHubReference(text: string): HubReference {
  const part = '[\\w][\\w.-]*';
  const form = new RegExp(`^${SCHEME}(${part}/${part})(?:@(${part}))?(?:/(${part}\\.gguf))?$`);
  const [, repository, revision = 'main', file] = form.exec(text) ?? [];
  if (repository !== undefined) return { repository, revision, file };
  throw hubError(
    `${safeLine(text)} is not a model on the hub`,
    'use hf:owner/name, hf:owner/name@revision or hf:owner/name/file.gguf',
  );
}

export const hubError = (message: string, hint: string): ConfigError =>
  new ConfigError('model/hub', message, { hint });

/** Returns the path on the hub of a file at a revision. */
export const pathOnHub = (repository: string, revision: string, file: string): string =>
  `/${repository}/resolve/${revision}/${file}`;
