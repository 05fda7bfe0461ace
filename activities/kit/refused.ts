/** The result of a dispatch that is refused before any of it is sent. */
import type { DispatchResult } from '../../contracts/wire/tools.ts';

export type Refused = Extract<DispatchResult, { kind: 'reopen' | 'refused' }>;

export function forbidden(message: string): Refused {
  return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message };
}
