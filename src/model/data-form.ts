/** The input format of a model, by its architecture or as its author says. */
import type { DataForm } from './architectures/architecture.ts';
import type { AnyModel } from './architectures/table.ts';
import { rulesOf } from './forms/table.ts';

export function dataFormOf(model: AnyModel): DataForm {
  if (model.architecture === 'own') return model.data;
  if ('features' in model) return { kind: 'rows', features: model.features };
  if (model.architecture === 'forecaster') {
    const { channels, context, horizon } = model;
    return { kind: 'series', channels, context, horizon };
  }
  if (model.architecture === 'vit') {
    const { pixels, channels, classes } = model;
    return { kind: 'images', pixels, channels, classes };
  }
  return { kind: 'tokens', vocabulary: model.vocabulary, context: model.context };
}

/** Tokens per example for throughput counters: the window length of a text, else 1. */
export const tokensPerRow = (model: AnyModel): number => rulesOf(dataFormOf(model)).tokensPerRow;
