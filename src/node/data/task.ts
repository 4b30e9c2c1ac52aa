/** What a worker trains, and where its data comes from, for whoever prepares it. */
import type { AnyModel } from '../../model/architectures/table.ts';
import type { ShardForm } from '../../model/data/text.ts';
import type { Tokenizer } from '../../model/data/tokenizer.ts';
import type { TrainerData } from '../../model/forms/table.ts';
import type { OptimizerSpec } from '../../run/spec/model-spec.ts';
import type { BaseModel, OpensBase } from '../pretrained/base-model.ts';

export interface Task {
  readonly name: string;
  readonly model: AnyModel;
  readonly optimizer: OptimizerSpec;
  readonly data: TrainerData;
  /** Tokens in one example; 1 where examples are rows. */
  readonly tokensPerExample: number;
  readonly text?: {
    readonly tokenizer: Tokenizer;
    /** Of the validation part: what its loss per token is as bits per byte. */
    readonly bytesPerToken: number;
  };
  /** The published model that is trained, or whose adapters are. */
  readonly base?: BaseModel;
  /** The tensors of the model that are not trained. */
  readonly frozen?: BaseModel['frozen'];
}

export interface Sources {
  /** What to train on: a text or .jsonl file or a CSV, or the https address of one; or a folder of pictures. */
  readonly corpus?: string | undefined;
  /** A regression dataset, as CSV or in the reference's JSON form. */
  readonly dataset?: string | undefined;
  /** The column of a CSV that is to be predicted. */
  readonly target?: string | undefined;
  /** What a run spec says of the data. */
  readonly fixed?: FixedData | undefined;
  /** The base of the settings, where it is open already, */
  readonly base?: BaseModel | undefined;
  /** or what opens it; default any that is there. */
  readonly openBase?: OpensBase | undefined;
  readonly onNotice: (message: string) => void;
  readonly signal: AbortSignal;
}

export interface FixedData {
  /** The one text that everybody trains on. */
  readonly sha256?: string;
  /** Where it is, by whoever made the run; nothing is fetched from there unasked. */
  readonly from?: string;
  readonly form?: ShardForm;
  /** A text that everybody evaluates on; all of the own one is then for training. */
  readonly evaluation?: Uint8Array;
}
