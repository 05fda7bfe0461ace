/** A list of tools that did not come, with what that tells of the server: for its breaker, and for the time that it asked for. */
import { CountersignError, type ErrorCode, type ErrorFacts } from '../../contracts/errors.ts';
import type { Health } from '../../domain/breaker.ts';
import type { Asked } from './server-limits.ts';

export class ListingFailure extends CountersignError {
  readonly health: Health;
  readonly asked: Asked | undefined;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts, health: Health, asked?: Asked) {
    super(code, message, facts);
    this.health = health;
    this.asked = asked;
  }
}

/** Of whatever a list ended with: what is no word of the server tells nothing of it. */
export function toldBy(error: unknown): { readonly health: Health; readonly asked?: Asked | undefined } {
  return error instanceof ListingFailure ? error : { health: 'neutral' };
}
