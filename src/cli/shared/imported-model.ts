/** `--model my.onnx --task classify` on a command line: replaced by the settings that the file and the task make. */
import { ConfigError } from '../../base/errors.ts';
import { modelNameFor } from '../../model/imported/model.ts';
import { openImported } from '../../node/pretrained/imported-file.ts';

const importedTasks = ['classify', 'regress', 'next-token'] as const;

/** Returns the value of a flag, and the words without it. */
function taken(
  words: readonly string[],
  flag: string,
): { readonly value: string | undefined; readonly rest: readonly string[] } {
  const at = words.findIndex((word) => word === flag || word.startsWith(`${flag}=`));
  if (at < 0) return { value: undefined, rest: words };
  const isJoined = words[at] !== flag;
  const value = isJoined ? words[at]!.slice(flag.length + 1) : words[at + 1];
  return { value, rest: words.toSpliced(at, isJoined ? 1 : 2) };
}

/** Returns the command line with an ONNX file as `--model` resolved. Throws a ConfigError if the task is missing. */
export async function withImportedModel(words: readonly string[]): Promise<readonly string[]> {
  const { value: file, rest: others } = taken(words, '--model');
  if (file === undefined || !file.endsWith('.onnx')) return words;
  const { value: task, rest } = taken(others, '--task');
  const known = importedTasks.find((each) => each === task);
  if (known === undefined) {
    const given = task === undefined ? 'is missing' : `${JSON.stringify(task)} does not exist`;
    throw new ConfigError('flag/task', `the task of ${file} ${given}`, {
      hint: 'add --task classify, --task regress or --task next-token',
    });
  }
  const { graph } = await openImported(file);
  const context = graph.input.shape[1];
  const isLong = known === 'next-token' && typeof context === 'number';
  return [
    ...rest,
    '--model',
    modelNameFor(graph, known),
    '--base',
    file,
    ...(isLong && !rest.includes('--context') ? ['--context', `${context}`] : []),
  ];
}
