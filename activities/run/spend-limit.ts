/** What a run may spend, and what its model costs: read once, at its start, and kept by the run. */
import type { ModelPrice } from '../../contracts/activities.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import { millionthsOf } from '../../domain/spend.ts';

/** Unlike the other limits, spend has no default: an operator's ceiling holds also where a run states none. */
export function leastOf(asked: string | undefined, ceiling: string | undefined): string | undefined {
  if (asked === undefined || ceiling === undefined) return asked ?? ceiling;
  return millionthsOf(asked) <= millionthsOf(ceiling) ? asked : ceiling;
}

/** What cannot be counted cannot be limited: such a run is not begun (INV-G4). */
export function priceOf({ models }: Config, name: string, { spend }: Limits): ModelPrice | undefined {
  const price = models[name]?.price;
  if (price !== undefined)
    return { input: millionthsOf(price.input), output: millionthsOf(price.output), currency: price.currency };
  if (spend === undefined) return undefined;
  throw new CountersignError(
    'SPEC_INVALID',
    `limits.spend is ${spend}, and model ${name} has no price in the configuration (models.${name}.price). Name a model that has one, or ask the operator to state it.`,
    { path: 'agent.model' },
  );
}
