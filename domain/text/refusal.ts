/** A refusal is a decision that changes nothing, as a value with its reason and facts. */
import type { ErrorCode, ErrorFacts } from '../../contracts/errors.ts';

export interface Refusal {
  readonly kind: 'refuse';
  readonly code: ErrorCode;
  readonly message: string;
  readonly facts: ErrorFacts;
}

export function refuse(code: ErrorCode, message: string, facts: ErrorFacts = {}): Refusal {
  return { kind: 'refuse', code, message, facts };
}

export function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'refuse';
}
