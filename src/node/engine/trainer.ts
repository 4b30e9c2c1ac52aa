/** Training on onnxruntime-node, on threads of this process. */
import type { TrainerSetup } from '../../trainer/setup.ts';
import { createTrainerOn, type Trainer } from '../../trainer/trainer.ts';
import { openTrainer } from './open.ts';
import { physicalCores } from './physical-cores.ts';
import { openStored } from './stored-tokens.ts';

/** Starts the trainer thread and loads the model. Throws `training/no-device`, or a `ConfigError` for data that does not fit. */
export const createTrainer = (setup: TrainerSetup): Promise<Trainer> =>
  createTrainerOn({ threads: physicalCores(), openStored, open: openTrainer }, setup);
