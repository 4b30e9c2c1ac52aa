/** The input format of a model: windows of tokens, or rows of numbers. */
import type { DataForm } from './architectures/architecture.ts';
import type { AnyModel } from './architectures/table.ts';

export function dataFormOf(model: AnyModel): DataForm {
  if (model.architecture === 'own') return model.data;
  if ('features' in model) return { kind: 'rows', features: model.features };
  return { kind: 'tokens', vocabulary: model.vocabulary, context: model.context };
}

/** Tokens per example for throughput counters: the window length, or 1 for a row of numbers. */
export function tokensPerRow(model: AnyModel): number {
  const form = dataFormOf(model);
  return form.kind === 'tokens' ? form.context : 1;
}
