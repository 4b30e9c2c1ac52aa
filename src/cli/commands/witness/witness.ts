/** `nostrain witness`: who is on a committee, what a committee stands up to, and what finding it costs. */
import { Command } from 'commander';
import { witnessBench } from './bench.ts';
import { witnessInspect } from './inspect.ts';
import { witnessWho } from './who.ts';

export const witness = (): Command =>
  new Command('witness')
    .description(
      'draw committees of witnesses, which certify rounds; compute how safe a size is; measure the cost',
    )
    .addCommand(witnessWho())
    .addCommand(witnessInspect())
    .addCommand(witnessBench());
